"""The collectives, in one table: their sizes, their columns, their bus bandwidth. Pure.

The semantics are those of nccl-tests 2.19.6 (doc/PERFORMANCE.md and src/*.cu there).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """One collective, as nccl-tests sees it."""

    name: str
    factor: Callable[[int], float]
    """Bus bandwidth over algorithm bandwidth, for n ranks."""
    sends_parts: bool = False
    """Whether a rank's send buffer has a part for each rank."""
    receives_parts: bool = False
    """Whether its receive buffer has one."""
    reduces: bool = False
    rooted: bool = False
    redop: str = "none"
    """The column `redop` of what doesn't reduce."""
    checked_in_place: bool = True
    """Whether the result in place is defined. Where it isn't, #wrong is N/A, as NVIDIA's."""
    copies: bool = False
    """Whether torch has it in place only, so that out-of-place is a copy and then the collective."""

    @property
    def command(self) -> str:
        return f"{self.name}_perf"

    @property
    def divided(self) -> bool:
        """Whether the size is that of all ranks' parts together."""
        return self.sends_parts or self.receives_parts


def busbw_factor(operation: Operation, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth. 0 for one rank: nothing crosses any link then."""
    return operation.factor(ranks) if ranks > 1 else 0.0


def _twice_the_others(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


def _the_others(ranks: int) -> float:
    return (ranks - 1) / ranks


def _all(_ranks: int) -> float:
    return 1.0


_TABLE = (
    Operation("all_reduce", _twice_the_others, reduces=True, copies=True),
    Operation("all_gather", _the_others, receives_parts=True),
    Operation("reduce_scatter", _the_others, sends_parts=True, reduces=True),
    Operation(
        "alltoall", _the_others, sends_parts=True, receives_parts=True, checked_in_place=False
    ),
    Operation("broadcast", _all, rooted=True, copies=True),
    Operation("reduce", _all, reduces=True, rooted=True, copies=True),
    Operation("gather", _the_others, receives_parts=True, rooted=True),
    Operation("scatter", _the_others, sends_parts=True, rooted=True),
    # NVIDIA's prints the operation of its flag here, which is sum unless somebody sets it.
    Operation("sendrecv", _all, redop="sum", checked_in_place=False),
)
OPERATIONS = {operation.name: operation for operation in _TABLE}
