"""What the kernel knows about a death that a signal doesn't tell. Effects: reads /sys, /dev/shm."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from muster.contract.machine import shared_memory
from muster.launch.xids import Xid

_NO_LIMIT = 1 << 60
"""Version 1 of cgroups writes "no limit" as a very large number."""


@dataclass(frozen=True)
class Evidence:
    """Counters of this container. Sizes in bytes; 0 where nothing is known."""

    oom_kills: int = 0
    """Processes that the kernel has killed for memory."""
    memory_limit: int = 0
    shm_size: int = 0
    shm_free: int = 0
    xids: tuple[Xid, ...] = ()
    """What the GPUs' driver has told since the ranks began."""

    def since(self, before: Evidence) -> Evidence:
        """The same with the kills alone that came after `before`."""
        return dataclasses.replace(self, oom_kills=self.oom_kills - before.oom_kills)


def look(cgroup: str = "/sys/fs/cgroup") -> Evidence:
    """The counters as they are now. Never raises: what can't be read is 0."""
    v2 = _pairs(f"{cgroup}/memory.events")
    v1 = _pairs(f"{cgroup}/memory/memory.oom_control")
    limit = _number(f"{cgroup}/memory.max") or _number(f"{cgroup}/memory/memory.limit_in_bytes")
    size, free = shared_memory()
    return Evidence((v2 or v1).get("oom_kill", 0), limit if limit < _NO_LIMIT else 0, size, free)


def _pairs(path: str) -> dict[str, int]:
    """A file of `name number` lines (https://docs.kernel.org/admin-guide/cgroup-v2.html)."""
    words = _read(path).split()
    pairs = zip(words[::2], words[1::2], strict=False)
    return {name: int(number) for name, number in pairs if number.isdecimal()}


def _number(path: str) -> int:
    text = _read(path).strip()
    return int(text) if text.isdecimal() else 0


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""
