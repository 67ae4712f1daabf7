"""The text of the table, byte for byte as nccl-tests 2.19.6 prints it. Pure.

Programs read it: a row has 13 words, of which 6 to 9 are out of place and 10 to 13 in place. Every other
line begins with `#`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_TIME, _BANDWIDTH = 7, 6
_FORM = "%Y-%m-%d %H:%M:%S"
_STAMP = 19
"""Characters of a time of that form."""


@dataclass(frozen=True)
class Half:
    """One half of a row: the collective out of place, or in place."""

    microseconds: float
    algbw: float
    """GB/s, of 10^9 bytes."""
    busbw: float
    wrong: int | None
    """Elements over all ranks; None where they were not counted."""


@dataclass(frozen=True)
class Row:
    """One size of a sweep."""

    size: int
    count: int
    type: str
    redop: str
    root: int
    out_of_place: Half
    in_place: Half


def fit(value: float, width: int) -> str:
    """`value` in `width` characters: as many decimals as there is room for, then an exponent."""
    if not math.isfinite(value):
        return f"{value:{width}}"
    digits = 0
    while value >= 10**digits:
        digits += 1
    decimals = 2 if digits < width - 2 else 1 if digits < width - 1 else 0
    shortest = f"{value:{width}.1e}" if width >= _TIME else f"{value:{width}.0e}"
    if digits > width:
        return shortest
    # One decimal less where rounding up has made the text longer: NVIDIA's overflows its column there.
    texts = [f"{value:{width}.{each}f}" for each in range(decimals, -1, -1)]
    return next((text for text in texts if len(text) == width), shortest)


def header(*, timestamps: bool) -> list[str]:
    """The four lines above the rows."""
    half = "  {:>7}  {:>6}  {:>6}  {:>6}"
    first = "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}"
    names, units = ("time", "algbw", "busbw", "#wrong"), ("(us)", "(GB/s)", "(GB/s)", "")
    stamp = (f"{'timestamp':>{_STAMP}}", _FORM.rjust(_STAMP)) if timestamps else ("", "")
    places = "           out-of-place                       in-place          "
    return [
        "#",
        first.format("", "", "", "", "") + places,
        first.format("size", "count", "type", "redop", "root")
        + half.format(*names) * 2
        + f" {stamp[0]}",
        first.format("(B)", "(elements)", "", "", "") + half.format(*units) * 2 + f" {stamp[1]}",
    ]


def row(of: Row, timestamp: str | None = None) -> str:
    """One line of the table."""
    head = f"{of.size:12d}  {of.count:12d}  {of.type:>8}  {of.redop:>6}  {of.root:6d}"
    stamp = f"{timestamp:>21}" if timestamp else ""
    return head + _half(of.out_of_place) + _half(of.in_place) + stamp


def _half(half: Half) -> str:
    time, algbw, busbw = (
        fit(half.microseconds, _TIME),
        fit(half.algbw, _BANDWIDTH),
        fit(half.busbw, _BANDWIDTH),
    )
    wrong = "   N/A" if half.wrong is None else f"{half.wrong:6g}"
    return f"  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong}"


def footer(command: str, wrong: int, average: float, verdict: str) -> list[str]:
    """The lines below the rows.

    Args:
        command: the program's name.
        wrong: elements, over all rows.
        average: of every busbw that was printed, GB/s.
        verdict: OK, FAILED, or nothing where no minimum was asked for.
    """
    return [
        f"# {'Out of bounds values':<20} : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# {'Avg bus bandwidth':<20} : {average:g} {verdict}",
        "#",
        f"# Collective test concluded: {command}",
    ]
