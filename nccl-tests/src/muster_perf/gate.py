"""What the rows come to: wrong values, the average, the minimum, and so the exit status. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from muster_perf.errors import REFUSED, PerfError
from muster_perf.table import Row

MINIMUM = "NCCL_TESTS_MIN_BW"
_SLACK = 0.9
"""NVIDIA's: a minimum is missed below nine tenths of it."""


def read_minimum(env: Mapping[str, str]) -> float | None:
    """The bus bandwidth in GB/s that the user wants; None without.

    Raises:
        PerfError: it is no number. NVIDIA's takes that for 0, which nothing can miss.
    """
    text = env.get(MINIMUM)
    if not text:
        return None
    try:
        minimum = float(text)
    except ValueError:
        minimum = math.nan
    if not math.isfinite(minimum):
        raise PerfError(f"{MINIMUM}={text} is no number of GB/s", "", REFUSED)
    return minimum


class Gate:
    """Takes every row; the same on every rank."""

    def __init__(self, minimum: float | None, ranks: int) -> None:
        self._minimum = minimum
        self._ranks = ranks
        self._rates: list[float] = []
        self._largest = -1
        self._reached = math.inf
        self.wrong = 0

    def add(self, row: Row) -> None:
        halves = (row.out_of_place, row.in_place)
        self._rates += [half.busbw for half in halves]
        self.wrong += sum(half.wrong or 0 for half in halves)
        best = max(half.busbw for half in halves)
        if row.size > self._largest:
            self._largest, self._reached = row.size, best
        elif row.size == self._largest:  # another type, operation, root or cycle
            self._reached = min(self._reached, best)

    @property
    def average(self) -> float:
        """Of every busbw in the table, as NVIDIA's."""
        return sum(self._rates) / len(self._rates) if self._rates else 0.0

    @property
    def verdict(self) -> str:
        """OK or FAILED; nothing without a minimum, or with one rank, whose busbw is 0 in any case."""
        if self._minimum is None or self._ranks == 1:
            return ""
        return "OK" if self._reached >= _SLACK * self._minimum else "FAILED"

    def lines(self) -> list[str]:
        """What the minimum was compared with."""
        if self._minimum is None:
            return []
        if self._ranks == 1:
            return [f"# note: {MINIMUM} is left aside, as one rank has no bus bandwidth"]
        compared = f"the {self._largest} B row's better half, {self._reached:g} GB/s"
        return [
            f"# note: {MINIMUM}={self._minimum:g} less 10 % is compared with {compared}; not with the average"
        ]

    def problem(self) -> str:
        """Why the run is a failure; nothing if it is none."""
        if self.wrong:
            return f"{self.wrong} wrong values over all ranks (the columns #wrong)"
        if self.verdict == "FAILED":
            return f"{self._reached:g} GB/s at {self._largest} B miss {MINIMUM}={self._minimum:g}"
        return ""
