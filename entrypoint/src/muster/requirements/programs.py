"""Runs one program at a time, and ends it when the job is to end. Effects: processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from muster.errors import RequirementsError

_GRACE_S = 1.0
"""pip undoes what it has begun when it is interrupted: the venv may outlive the job."""
_LOOK_S = 0.5
_ENDING = "the job is ending"


class Programs:
    """This stage's programs. `end` may come from another thread than `run`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._over = False

    def run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        folder: str,
        output: int,
        watch: Callable[[float], bool] | None = None,
    ) -> int:
        """The program's exit code, or -n for signal n.

        Args:
            argv: its words.
            env: its whole environment.
            folder: where it runs.
            output: a file for both of its streams.
            watch: is given the seconds that have passed, twice a second, and says whether to go on.

        Raises:
            RequirementsError: it can't be started, or the job is ending.
        """
        process = self._start(argv, env, folder, output)
        began = time.monotonic()
        try:
            while True:
                try:
                    process.wait(_LOOK_S)
                except subprocess.TimeoutExpired:
                    if watch and not watch(time.monotonic() - began):
                        _end(process)
                else:
                    break
        finally:
            _end(process)
        if self._over:
            raise RequirementsError(_ENDING)
        return process.returncode

    def end(self) -> None:
        """Ends what runs; nothing starts any more."""
        with self._lock:
            self._over = True
            running = self._running
        if running:
            _end(running)

    def _start(
        self, argv: Sequence[str], env: Mapping[str, str], folder: str, output: int
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._over:
                raise RequirementsError(_ENDING)
            try:
                # A group of its own: what it has started ends with it.
                self._running = subprocess.Popen(
                    argv,
                    env=dict(env),
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            except OSError as error:
                raise RequirementsError(f"{argv[0]} can't be started: {error.strerror}") from error
            return self._running


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupts the group, and kills what is left of it after a moment."""
    if process.poll() is not None:
        return
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
