"""Which host differs from the others, in words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

Value = TypeVar("Value")
_NAMED = 4


def named(things: Sequence[str]) -> str:
    """`algo-1, algo-2 and 14 more`; a job may have 500 hosts."""
    more = f" and {len(things) - _NAMED} more" if len(things) > _NAMED else ""
    return ", ".join(things[:_NAMED]) + more


def differing(values: Mapping[str, Value], show: Callable[[Value], str]) -> tuple[str, str]:
    """Who differs, and in what; both empty where all are alike.

    Args:
        values: by host.
        show: a value in words.

    Returns:
        The first host of those that differ from most, and all in words. Where no value is the one of most, as with
        two hosts, the first host of all.
    """
    alike: dict[Value, list[str]] = {}
    for host, value in values.items():
        alike.setdefault(value, []).append(host)
    if len(alike) <= 1:
        return "", ""
    (most, usual), *others = sorted(alike.items(), key=lambda pair: -len(pair[1]))
    if len(others[0][1]) == len(usual):
        text = ", ".join(f"{show(value)} on {named(on)}" for value, on in alike.items())
        return next(iter(values)), text
    rest = ", ".join(f"{show(value)} on {named(on)}" for value, on in others)
    return others[0][1][0], f"{rest}, {show(most)} on the {len(usual)} others"
