"""Reads nccl-tests' output, written from the description of its format alone.

A row has 13 words: size, count, type, redop, root, then time, algbw, busbw and #wrong out of place and in place.
All other lines begin with # or are empty; launchers may put a prefix in front of any.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PREFIX = re.compile(r"^(\[[^\]]*\](<stdout>:)?\s?|\d+:\s)")


class Line(NamedTuple):
    """A row."""

    size: int
    count: int
    type: str
    redop: str
    root: int
    out_time: float
    out_algbw: float
    out_busbw: float
    out_wrong: str
    in_time: float
    in_algbw: float
    in_busbw: float
    in_wrong: str


_HALF = (float, float, float, str)
_KINDS = (int, int, str, str, int, *_HALF, *_HALF)


class Output(NamedTuple):
    """A whole run."""

    rows: list[Line]
    out_of_bounds: tuple[int, str]
    average: float
    verdict: str
    concluded: str


def read(text: str) -> Output:
    """Take an output apart. Raises ValueError, TypeError where it is none."""
    lines = [_PREFIX.sub("", line) for line in text.splitlines()]
    rows = [
        Line(*(kind(word) for kind, word in zip(_KINDS, line.split(), strict=True)))
        for line in lines
        if re.match(r"\s*\d+\s+\d+\s+[a-z]", line)
    ]
    bounds = _one(lines, r"# Out of bounds values\s*:\s*(\d+) (OK|FAILED)$")
    average = _one(lines, r"# Avg bus bandwidth\s*:\s*(\S+) ?(OK|FAILED|)$")
    concluded = _one(lines, r"# Collective test concluded: (\S+)$")
    return Output(rows, (int(bounds[1]), bounds[2]), float(average[1]), average[2], concluded[1])


def _one(lines: list[str], pattern: str) -> re.Match[str]:
    (found,) = [match for line in lines if (match := re.match(pattern, line))]
    return found
