"""What the container may use of the machine's processors and memory. Effects: reads /sys/fs/cgroup, /proc.

Both versions: https://docs.kernel.org/admin-guide/cgroup-v2.html, and …/cgroup-v1/memory.html.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from muster.contract.machine import processor_time

_NO_LIMIT = 1 << 60
"""Version 1 writes "no limit" as a very large number."""


@dataclass(frozen=True)
class Share:
    """What is there, and what of it this container has. Sizes in bytes; None where nothing limits or tells it."""

    visible: int
    """Processors in the affinity mask: what programs count."""
    time: float | None = None
    """Seconds of a processor that the cgroup has in a second."""
    limit: int | None = None
    """Of the cgroup's memory."""
    used: int = 0
    """Of that limit, without what the kernel would give back."""
    total: int | None = None
    """Memory of the machine."""
    available: int | None = None
    """Of the machine's, what programs can still have."""


def look(proc: str, sys: str) -> Share:
    """The share as it is now. What can't be read is not there."""
    cgroup = f"{sys}/fs/cgroup"
    limit, used = _memory(cgroup)
    machine = _pairs(f"{proc}/meminfo")
    total, available = (machine.get(name) for name in ("MemTotal:", "MemAvailable:"))
    return Share(
        visible=len(os.sched_getaffinity(0)),
        time=processor_time(cgroup),
        limit=limit,
        used=used,
        total=total and total * 1024,
        available=available and available * 1024,
    )


def _memory(cgroup: str) -> tuple[int | None, int]:
    """The limit, and what is used of it."""
    v1 = f"{cgroup}/memory"
    for limit, used, stat, cache in (
        (f"{cgroup}/memory.max", f"{cgroup}/memory.current", cgroup, "inactive_file"),
        (f"{v1}/memory.limit_in_bytes", f"{v1}/memory.usage_in_bytes", v1, "total_inactive_file"),
    ):
        most = _number(limit)
        if most is not None and most < _NO_LIMIT:
            # As `docker stats` counts: pages of files that nobody uses are given back.
            cached = _pairs(f"{stat}/memory.stat").get(cache, 0)
            return most, max(0, (_number(used) or 0) - cached)
    return None, 0


def _pairs(path: str) -> dict[str, int]:
    """A file whose lines begin with a name and a number."""
    lines = (line.split() for line in _read(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}


def _number(path: str) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdecimal() else None  # `max` where there is no limit.


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""
