"""What ranks send, and what they must then have. Pure.

All values are small whole numbers whose result every type holds exactly, in whatever order it is made, so that
a single wrong bit counts and rounding never does. They repeat after a period, which is all that is computed.
Only averages are rounded (`tolerance`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from muster_perf.operations import Operation
from muster_perf.sizes import Counts

_SUMMED, _MOVED, _MULTIPLIED = 7, 127, 3
"""What values are taken modulo: 7 keeps sums small; 127 is the most that int8 holds, and prime."""
_EXACT = {"int8": 127, "uint8": 255, "half": 2**11, "bfloat16": 2**8}
"""Up to here the type has every whole number; the others have it up to 2^24 at least."""
_EPSILON = {"half": 2.0**-10, "bfloat16": 2.0**-7, "float": 2.0**-23, "double": 2.0**-52}


class Piece(NamedTuple):
    """A run of elements: `values` repeated, from the element `offset` of the repetition on."""

    values: tuple[float, ...]
    offset: int
    length: int


class Case(NamedTuple):
    """What is checked: an operation, its values' type, and who takes part."""

    operation: Operation
    redop: str
    type: str
    ranks: int
    root: int
    repeat: int = 0
    """Another number, other values."""


def sent(case: Case, rank: int, counts: Counts) -> list[Piece]:
    """What `rank` puts into its send buffer; nothing where only the root sends."""
    operation = case.operation
    if operation.rooted and not operation.reduces and not operation.receives_parts:
        return [Piece(_moved(case, rank), 0, counts.send)] if rank == case.root else []
    values = _contribution(case, rank) if operation.reduces else _moved(case, rank)
    return [Piece(values, 0, counts.send)]


def expected(case: Case, rank: int, counts: Counts) -> list[Piece]:
    """What `rank` must have in its receive buffer; nothing where only the root has a result."""
    name = case.operation.name
    if name in ("reduce", "gather") and rank != case.root:
        return []
    # A part of what was sent as a whole: the rank's own.
    offset = rank * counts.count if case.operation.sends_parts else 0
    if case.operation.reduces:
        return [Piece(_reduced(case), offset, counts.count)]
    sources: Iterable[int] = (case.root,)
    if case.operation.receives_parts:
        sources = range(case.ranks)
    elif name == "sendrecv":
        sources = ((rank - 1) % case.ranks,)
    return [Piece(_moved(case, source), offset, counts.count) for source in sources]


def tolerance(case: Case) -> float:
    """How far off a value may be: 0, but for averages of floats, which backends round differently."""
    if case.redop != "avg" or not case.operation.reduces:
        return 0.0
    return _EPSILON.get(case.type, 0.0) * _SUMMED * (case.ranks + 1)


def _moved(case: Case, rank: int) -> tuple[int, ...]:
    return tuple((i + 5 * rank + case.repeat) % _MOVED for i in range(_MOVED))


def _stride(case: Case) -> int:
    """Only every so many-th rank has more than 0 in an element, so that the sum stays exact."""
    room = _EXACT.get(case.type, 2**24) - _SUMMED
    return math.ceil((_SUMMED - 1) * case.ranks / room)


@lru_cache(maxsize=64)
def _contribution(case: Case, rank: int) -> tuple[int, ...]:
    if case.redop == "prod":
        # One rank of all multiplies an element by something, so that the product stays small.
        return tuple(
            1 + (i + case.repeat) % _MULTIPLIED if i // _MULTIPLIED == rank else 1
            for i in range(_MULTIPLIED * case.ranks)
        )
    if case.redop in ("min", "max"):
        return _moved(case, rank)
    stride = _stride(case)
    return tuple(
        (i + rank + case.repeat) % _SUMMED if rank % stride == i % stride else 0
        for i in range(_SUMMED * stride)
    )


@lru_cache(maxsize=64)
def _reduced(case: Case) -> tuple[int, ...]:
    if case.redop == "prod":
        period = range(_MULTIPLIED * case.ranks)
        return tuple(1 + (i + case.repeat) % _MULTIPLIED for i in period)
    columns = zip(*(_contribution(case, rank) for rank in range(case.ranks)), strict=True)
    if case.redop in ("min", "max"):
        return tuple(map(min if case.redop == "min" else max, columns))
    return tuple(map(sum, columns))
