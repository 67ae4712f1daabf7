"""Who wins where two places set the same thing. Pure."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Choice(NamedTuple, Generic[T]):
    """What holds, who said so, and a line for the log when somebody else said otherwise."""

    value: T | None
    source: str
    conflict: str | None


def choose(what: str, *places: tuple[T | None, str]) -> Choice[T]:
    """The first of `places` that says anything.

    Args:
        what: what is being set, for the line in the log.
        places: values, None or empty where the place says nothing, and the place's name.
    """
    said = [(value, source) for value, source in places if value not in (None, "")]
    if not said:
        return Choice(None, "", None)
    value, source = said[0]
    loser = next(((other, place) for other, place in said if other != value), None)
    conflict = loser and f"{what} {value} from {source} wins over {loser[0]} from {loser[1]}"
    return Choice(value, source, conflict)
