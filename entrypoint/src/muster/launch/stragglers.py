"""What a script has left running: does it still work, or does it only exist?

After a stop a helper may still be writing the checkpoint that the script has handed to it. It
gets the script's time, as long as it does anything. Effects: reads /proc.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection

from muster.launch.proc import field, processes

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
        """What each of them has done so far, as a text to compare."""
        return {
            process.pid: f"{process.ticks} {field(process.pid, 'io', 'wchar')}"
            for process in processes()
            if process.state != "Z"
            and process.pid not in self._excluded
            and (process.group in self._groups or process.parent == os.getpid())
        }
