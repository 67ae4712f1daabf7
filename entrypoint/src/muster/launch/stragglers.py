"""What a script has left running: does it still work, or does it only exist?

After a stop a helper may still be writing the checkpoint that the script has handed to it. It
gets the script's time, as long as it does anything. Effects: reads /proc.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection

_IDLE_S = 5.0
"""Without a change in this time a process counts as idle: a tracker, a `sleep`."""


class Stragglers:
    """The processes of some groups, and this process's own children, watched over time.

    Args:
        groups: process groups; each rank's script leads one.
        excluded: children of this process that are none of the script's.
    """

    def __init__(self, groups: Collection[int], excluded: Collection[int] = ()) -> None:
        self._groups = frozenset(groups)
        self._excluded = frozenset(excluded)
        self._seen: dict[int, tuple[str, float]] = {}
        """The last work and when it changed, by process."""

    def working(self) -> list[int]:
        """Those that live and have used a processor or written anything in the last 5 s."""
        now = time.monotonic()
        seen = {}
        for pid, work in self._look().items():
            before = self._seen.get(pid)
            seen[pid] = before if before and before[0] == work else (work, now)
        self._seen = seen
        return sorted(pid for pid, (_, at) in seen.items() if now - at < _IDLE_S)

    def _look(self) -> dict[int, str]:
        found = {}
        for name in os.listdir("/proc"):
            if name.isdecimal() and int(name) not in self._excluded:
                work = self._work(name)
                if work is not None:
                    found[int(name)] = work
        return found

    def _work(self, pid: str) -> str | None:
        """What a process has done so far, as a text to compare; None when it isn't watched."""
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                # The command's name may hold blanks and brackets: count from behind it.
                words = file.read().rpartition(")")[2].split()
        except OSError:
            return None
        state, parent, group = words[0], int(words[1]), int(words[2])
        if state == "Z" or (group not in self._groups and parent != os.getpid()):
            return None
        return f"{words[11]} {words[12]} {_written(pid)}"


def _written(pid: str) -> str:
    """Bytes that it has written, also to pipes and sockets (proc_pid_io(5))."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            return next((line.split()[1] for line in file if line.startswith("wchar")), "")
    except OSError:
        return ""
