"""The launcher's process, and everybody else's orphans. Effects: starts and reaps processes."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from muster.errors import LaunchError
from muster.launch.streams import LogPump, Source
from muster.model import Plan

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Launcher:
    """A launcher that runs, and where its output is."""

    process: subprocess.Popen[bytes]
    out: Source
    err: Source

    @property
    def ended(self) -> bool:
        """Whether it is known to have ended (see reap_orphans)."""
        return self.process.returncode is not None


def start_launcher(plan: Plan, env: Mapping[str, str], pump: LogPump) -> Launcher:
    """Starts the plan's command in a session of its own, its output going to `pump`.

    Of its own, so that Ctrl-C at a terminal reaches the harness alone, which decides.

    Raises:
        LaunchError: the command can't be started.
    """
    try:
        process = subprocess.Popen(
            plan.argv,
            cwd=plan.cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        what = f"{plan.argv[0]} can't be started: {error.strerror}"
        raise LaunchError(what) from error
    label = f"[{plan.host} {plan.launcher}] ".encode()
    return Launcher(
        process, _pumped(process.stdout, 1, label, pump), _pumped(process.stderr, 2, label, pump)
    )


def _pumped(stream: IO[bytes] | None, target: int, label: bytes, pump: LogPump) -> Source:
    assert stream is not None
    # A descriptor of the pump's own: it closes it, and not behind the file object's back.
    source = pump.add(os.dup(stream.fileno()), target, label)
    stream.close()
    return source


def adopt_orphans() -> None:
    """Makes this process the parent of orphaned descendants, as PID 1 is by nature."""
    if os.getpid() != 1:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans(launcher: Launcher) -> None:
    """Reaps every ended child but the launcher.

    Peeks first: a waitpid(-1) would take the launcher's status away from its Popen,
    which then reports 0 for a launcher that failed.
    """
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None:
            return
        if ended.si_pid == launcher.process.pid:
            launcher.process.poll()
        else:
            os.waitpid(ended.si_pid, 0)


def kill_group(pgid: int) -> None:
    """Ends a whole process group at once."""
    try:
        os.killpg(pgid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
