"""Hyperparameters as the script's arguments, in one of five ways (MUSTER_ARGS). Pure.

No shell ever sees them: a value with a blank, a `$` or a newline arrives as one
argument, byte for byte. A null is left out, but for `toolkit`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from muster.contract.exportable import refuse_unexportable
from muster.contract.hyperparameters import INSTEAD, compact
from muster.errors import ContractError
from muster.model import HyperParameter

HyperParameters = Sequence[HyperParameter]


def plain(hyperparameters: HyperParameters) -> tuple[str, ...]:
    """`--key value` for each, `-k value` for a key of one letter.

    Booleans read True and False, as argparse users write them; lists and objects
    are compact JSON; every other scalar keeps the text it was sent with.
    """
    return _pairs((item.key, _text(item)) for item in _present(hyperparameters))


def flags(hyperparameters: HyperParameters) -> tuple[str, ...]:
    """As `plain`, but true is a bare `--key`, for store_true options, and false is left out."""
    argv: list[str] = []
    for item in _present(hyperparameters):
        # A generic Estimator sends Python's own spelling, which is no JSON.
        text = _text(item)
        if text not in ("True", "False"):
            argv += [_option(item.key), text]
        elif text == "True":
            argv.append(_option(item.key))
    return tuple(argv)


def equals(hyperparameters: HyperParameters) -> tuple[str, ...]:
    """`key=value` for each, as Hydra takes them."""
    return tuple(f"{item.key}={_text(item)}" for item in _present(hyperparameters))


def none(_hyperparameters: HyperParameters) -> tuple[str, ...]:
    """No arguments: the script reads SM_HPS or SM_HP_*."""
    return ()


def toolkit(hyperparameters: HyperParameters) -> tuple[str, ...]:
    """What AWS's sagemaker-training hands over, to the byte (contract.md 3).

    That is `1e5` as 100000.0, a list as Python's repr, an object as `a=1,b=x`, null as an
    empty argument.

    Raises:
        ContractError: an object holds a NUL byte or half a surrogate pair. JSON escapes them, this form doesn't.
    """
    texts = {item.key: _toolkit_text(_toolkit_value(item.sent)) for item in hyperparameters}
    for key, text in texts.items():
        refuse_unexportable(f"hyperparameter {key!r}", text, INSTEAD)
    return _pairs(texts.items())


MODES: dict[str, Callable[[HyperParameters], tuple[str, ...]]] = {
    "plain": plain,
    "toolkit": toolkit,
    "flags": flags,
    "equals": equals,
    "none": none,
}
"""The ways by their names in MUSTER_ARGS."""

_LONGEST = 128 * 1024 - 1
"""Bytes of one argument: Linux's MAX_ARG_STRLEN, without the byte that ends it."""


def arguments(hyperparameters: HyperParameters, mode: str) -> tuple[str, ...]:
    """The script's arguments, in the way of MODES that is named.

    Raises:
        ContractError: one is longer than a program can be given.
    """
    words = MODES[mode](hyperparameters)
    for before, word in zip(["", *words], words, strict=False):
        size = len(word.encode())
        if size > _LONGEST:
            name = before or word.partition("=")[0]
            what = f"hyperparameter {name} has {size} bytes, and an argument at most {_LONGEST}"
            remedy = "With MUSTER_ARGS=none the script gets no arguments, and reads all from SM_HPS or SM_HPS_FILE."
            raise ContractError(what, remedy)
    return words


def _present(hyperparameters: HyperParameters) -> list[HyperParameter]:
    return [item for item in hyperparameters if item.value is not None]


def _pairs(items: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(word for key, text in items for word in (_option(key), text))


def _option(key: str) -> str:
    return f"-{key}" if len(key) == 1 else f"--{key}"


def _text(item: HyperParameter) -> str:
    if isinstance(item.value, bool):
        return str(item.value)
    if isinstance(item.value, (list, dict)):
        return compact(item.value)
    return item.text


def _toolkit_value(sent: Any) -> Any:
    try:
        return json.loads(sent)
    except (ValueError, TypeError, RecursionError):
        return sent


def _toolkit_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return ",".join(f"{key}={member}" for key, member in sorted(value.items()))
    return str(value)
