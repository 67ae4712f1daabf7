"""Hyperparameters as the script's arguments. Pure.

Each yields at most two arguments, and no shell ever sees them: a value with a
blank, a `$` or a newline arrives as one argument, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.contract.hyperparameters import compact
from muster.model import HyperParameter


def plain(hyperparameters: Iterable[HyperParameter]) -> tuple[str, ...]:
    """`--key value` for each, `-k value` for a key of one letter, nothing for null.

    Booleans read True and False, as argparse users write them; lists and objects
    are compact JSON; every other scalar keeps the text it was sent with.
    """
    argv: list[str] = []
    for item in hyperparameters:
        if item.value is None:
            continue
        argv += [_option(item.key), _text(item)]
    return tuple(argv)


def _option(key: str) -> str:
    return f"-{key}" if len(key) == 1 else f"--{key}"


def _text(item: HyperParameter) -> str:
    if isinstance(item.value, bool):
        return str(item.value)
    if isinstance(item.value, (list, dict)):
        return compact(item.value)
    return item.text
