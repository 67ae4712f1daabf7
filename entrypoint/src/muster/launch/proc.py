"""Processes as /proc shows them (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html).

Effects: reads /proc.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple


class Process(NamedTuple):
    """What /proc/PID/stat says of one process."""

    pid: int
    state: str
    """Z for one that has ended and is not waited for."""
    parent: int
    group: int
    ticks: int
    """Of a processor, used so far, its own and the kernel's for it."""


def processes() -> Iterator[Process]:
    """All processes that live now. One that ends meanwhile is left out."""
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                # The command's name may hold blanks and brackets: count from behind it.
                words = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        ticks = int(words[11]) + int(words[12])
        yield Process(int(name), words[0], int(words[1]), int(words[2]), ticks)


def field(pid: int, file: str, name: str) -> str:
    """The first word behind `name:` in /proc/PID/FILE; empty when there is none."""
    try:
        with open(f"/proc/{pid}/{file}", encoding="utf-8", errors="replace") as lines:
            return next(line.split()[1] for line in lines if line.startswith(f"{name}:"))
    except (OSError, StopIteration, IndexError):
        return ""
