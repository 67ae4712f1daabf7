"""The messages of the channel as JSON objects, and causes in them. Pure.

    host → leader   join {facts}  ready {launcher}  failed {cause}  stop {signum}
                    ranks {done, living}  stacks {rank, text}  over {cause}  reported {}
                    agree {serial, tally}  tell {topic, data}
    leader → host   welcome {master_port, nprocs}  go {}  stop {signum, host}  dump {}
                    verdict {cause}  leave {}  agreed {serial, why, tally}  unagreed {text}
                    answered {topic, answer}
    leader, itself  told {topic, data}  answer {topic, answer}
    both ways       beat {}; spawn, hangup, ate, output, exited for another host (relay.py)

docs/channel.md says when each is sent.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

from muster.channel.wire import Message, WireError
from muster.errors import Kind
from muster.mask import mask_text
from muster.model import Cause

_KINDS = typing.get_args(Kind)
_TEXT_LIMIT = 16 * 1024
"""Characters of a cause's text that travel; the failure file has 1024 bytes."""
_HIGHEST_STATUS = 255
_LARGEST = 2**63
_HEXADECIMAL = frozenset("0123456789abcdef")


def pack_cause(cause: Cause | None) -> Message | None:
    """A cause as it travels: its texts masked, and bounded."""
    if cause is None:
        return None
    texts = {
        "headline": mask_text(cause.headline)[:_TEXT_LIMIT],
        # The end of a traceback says more than its beginning.
        "detail": mask_text(cause.detail)[-_TEXT_LIMIT:],
        "remedy": cause.remedy[:_TEXT_LIMIT],
    }
    return dataclasses.asdict(cause) | texts


def unpack_cause(value: Any) -> Cause | None:
    """The cause in a message.

    Raises:
        WireError: it is neither a cause nor null.
    """
    if value is None:
        return None
    hints = typing.get_type_hints(Cause)
    if not isinstance(value, dict) or value.keys() != hints.keys():
        raise WireError("a cause with other fields")
    texts = [value[name] for name in ("headline", "host", "detail", "remedy")]
    numbers = (value["status"], value["time"])
    if (
        not all(isinstance(text, str) for text in texts)
        or value["kind"] not in _KINDS
        or not all(is_number(number) for number in numbers)
        or not 0 < value["status"] <= _HIGHEST_STATUS
        or not (value["rank"] is None or is_number(value["rank"]))
    ):
        raise WireError("a cause with a wrong field")
    whole = {"status": int(value["status"]), "time": float(value["time"])}
    flags = {name: value[name] is True for name in ("asked", "echo")}
    return Cause(**(value | whole | flags))


def is_number(value: Any) -> bool:
    """Whether it is a number of a sensible size: JSON as Python reads it has NaN and 10**400."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    return good and abs(value) < _LARGEST


def number(message: Message, key: str) -> float:
    """The number that a message has under `key`.

    Raises:
        WireError: it has none there.
    """
    value = message.get(key)
    if not is_number(value):
        raise WireError(f"{message.get('type')} without a number {key}")
    return float(typing.cast("float", value))


def text(message: Message, key: str, limit: int = _TEXT_LIMIT) -> str:
    """The text that a message has under `key`, at most `limit` characters of its end.

    Raises:
        WireError: it has none there.
    """
    value = message.get(key)
    if not isinstance(value, str):
        raise WireError(f"{message.get('type')} without a text {key}")
    return value[-limit:]


def hexadecimal(message: Message, key: str) -> str:
    """The hexadecimal digits that a message has under `key`.

    Raises:
        WireError: it has something else there.
    """
    value = text(message, key)
    if not value or not _HEXADECIMAL.issuperset(value):
        raise WireError(f"{key} is not hexadecimal")
    return value
