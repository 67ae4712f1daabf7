"""Where the time has gone since the process began. Effects: reads the clock and /proc."""

from __future__ import annotations

import os
import time


class Clock:
    """Counts laps; the first one begins with the process, interpreter and imports included."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic() - _age()

    def lap(self, name: str) -> None:
        """The time since the last lap is `name`'s."""
        now = time.monotonic()
        self.add(name, now - self._last)
        self._last = now

    def skip(self) -> None:
        """The time since the last lap has been counted elsewhere."""
        self._last = time.monotonic()

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def line(self) -> str:
        """All laps and their sum."""
        laps = ", ".join(f"{name} {seconds:.2f}" for name, seconds in self.seconds.items())
        return f"# Time (s): {laps}; together {sum(self.seconds.values()):.2f}"


def _age() -> float:
    """How long this process has been there, in seconds; 0 where the system doesn't tell."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            # The name in parentheses may have blanks; the start is the 22nd field of all.
            started = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/uptime", encoding="ascii") as file:
            return max(0.0, float(file.read().split()[0]) - started / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return 0.0
