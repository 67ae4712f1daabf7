"""The launcher's process, and everybody else's orphans. Effects: starts and reaps processes."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import IO

from muster.errors import LaunchError
from muster.launch.streams import LogPump, Source
from muster.model import Plan

_PR_SET_CHILD_SUBREAPER = 36


class Launcher:
    """The launcher of this host; without a process, one that another host runs for all.

    Args:
        process: it runs.
        outputs: where its output is.
    """

    def __init__(
        self, process: subprocess.Popen[bytes] | None = None, outputs: tuple[Source, ...] = ()
    ) -> None:
        self.process = process
        self.outputs = outputs

    @property
    def ended(self) -> bool:
        """Whether it is known to have ended (see reap_orphans)."""
        return self.process is not None and self.process.returncode is not None

    @property
    def code(self) -> int:
        """Its code, or -n for signal n; 0 while it runs."""
        return (self.process.returncode or 0) if self.process else 0

    @property
    def tail(self) -> tuple[str, ...]:
        """Its last lines on stderr."""
        return self.outputs[-1].tail_lines() if self.outputs else ()

    @property
    def processes(self) -> dict[int, subprocess.Popen[bytes]]:
        """By pid."""
        return {self.process.pid: self.process} if self.process else {}

    def mute(self) -> None:
        """Shows nothing more of it."""
        for output in self.outputs:
            output.muted = True

    def kill(self) -> None:
        """Ends it, and what it has started in its group."""
        if self.process and self.process.poll() is None:
            kill_group(self.process.pid)
            self.process.wait()


def start_launcher(plan: Plan, env: Mapping[str, str], pump: LogPump) -> Launcher:
    """Starts the plan's command in a session of its own, its output going to `pump`.

    Of its own, so that Ctrl-C at a terminal reaches the harness alone, which decides. Where the
    plan has no command, another host's launcher is this one's, too.

    Raises:
        LaunchError: the command can't be started.
    """
    if not plan.argv:
        return Launcher()
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
    streams = ((process.stdout, 1), (process.stderr, 2))
    return Launcher(process, tuple(_pumped(*stream, label, pump) for stream in streams))


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


def reap_orphans(own: Mapping[int, subprocess.Popen[bytes]]) -> None:
    """Reaps every ended child but those that have a Popen, which are asked to look.

    Peeks first: a waitpid(-1) would take a launcher's status away from its Popen,
    which then reports 0 for a launcher that failed.

    Args:
        own: this process's Popens, by pid.
    """
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None:
            return
        if ended.si_pid in own:
            own[ended.si_pid].poll()
        else:
            os.waitpid(ended.si_pid, 0)


def kill_group(pgid: int) -> None:
    """Ends a whole process group at once."""
    try:
        os.killpg(pgid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
