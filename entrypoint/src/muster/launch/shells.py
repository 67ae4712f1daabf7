"""Shells as a rank's main process: they don't pass signals on. Effects: reads /proc, signals."""

from __future__ import annotations

import contextlib
import os
import signal

from muster.launch.proc import field, processes

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "busybox", "ksh", "mksh", "zsh"})


def signal_with_children(pid: int, number: int) -> None:
    """Sends a signal to a script's main process and, where that is a shell, to its children.

    Not further down: what a child has started is the child's to tell. A shell that would die of
    a signal that only its script's program understands (SIGUSR1, SIGUSR2) is left out.

    Raises:
        ProcessLookupError: the main process has ended.
    """
    children = _children(pid) if _is_shell(pid) else []
    if not children or number not in (signal.SIGUSR1, signal.SIGUSR2) or _catches(pid, number):
        os.kill(pid, number)
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)


def _is_shell(pid: int) -> bool:
    try:
        # Its name may be the script's; the program is the shell.
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) in _SHELLS
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    return [other.pid for other in processes() if other.parent == pid and other.state != "Z"]


def _catches(pid: int, number: int) -> bool:
    mask = field(pid, "status", "SigCgt")
    return bool(int(mask or "0", 16) >> (number - 1) & 1)
