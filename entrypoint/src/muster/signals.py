"""Signals, from the harness's first moment to its last.

Until the ranks run, SIGTERM and SIGINT end the harness at once, by an exception.
From then on they are notes in an inbox: the supervisor decides what they mean.

This module imports next to nothing, because `catch_early` must run before every
other import. A container's PID 1 that has no handler yet never sees a SIGTERM:
the kernel drops it (contract.md 7.1).
"""

from __future__ import annotations

import os
import signal
from types import FrameType

from muster.errors import StopRequested

STOPPING = (signal.SIGTERM, signal.SIGINT)
"""What asks a job to stop: `docker stop`, StopTrainingJob, a spot reclaim, Ctrl-C."""

FORWARDED = (signal.SIGUSR1, signal.SIGUSR2)
"""What a user may send to the container for the script."""


def catch_early() -> None:
    """From now on a stopping signal raises StopRequested. Effects: sets handlers."""
    for number in STOPPING:
        signal.signal(number, _raise)


def _raise(number: int, _frame: FrameType | None) -> None:
    raise StopRequested(number)


def wait_for_stop(seconds: float) -> None:
    """Waits for a stopping signal, at most so long. Effects: takes the signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    signal.sigtimedwait(STOPPING, seconds)


def before_exec() -> None:
    """Undoes what Python does to signals: a program that takes our place starts as usual."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


class Inbox:
    """Signals as readable bytes, for a selector. One a process; main thread only."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def open(self) -> None:
        """From now on signals are collected. SIGCHLD too, so that an ended child wakes the loop."""
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (*STOPPING, *FORWARDED, signal.SIGCHLD):
            signal.signal(number, _note)

    def close(self) -> None:
        """Signals are noted nowhere any more. Can be called twice."""
        if self._read >= 0:
            signal.set_wakeup_fd(-1)
            os.close(self._read)
            os.close(self._write)
            self._read = self._write = -1

    def fileno(self) -> int:
        return self._read

    def read(self) -> list[int]:
        """The signals since the last call, in order."""
        try:
            return list(os.read(self._read, 4096))
        except BlockingIOError:
            return []


def _note(_number: int, _frame: FrameType | None) -> None:
    """The byte in the wake-up pipe says it all; only a handler in Python makes it be written."""
