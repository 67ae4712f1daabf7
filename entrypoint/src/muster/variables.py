"""How one variable of the harness is described, and how its text is read. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_HIGHEST_PORT = 65535


@dataclass(frozen=True)
class Setting:
    """One row: the variable, how its text is read, the default, and what it is for."""

    variable: str
    parse: Callable[[str], Any]
    default: Any
    accepts: str
    meaning: str
    since: str = "0.1"


def switch(text: str) -> bool:
    """1, true, 0 or false. Raises ValueError."""
    try:
        return {"1": True, "true": True, "0": False, "false": False}[text.lower()]
    except KeyError:
        raise ValueError(text) from None


def positive(text: str) -> int:
    """A whole number from 1. Raises ValueError."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def port(text: str) -> int:
    """The number of a TCP port. Raises ValueError."""
    number = int(text)
    if not 0 < number <= _HIGHEST_PORT:
        raise ValueError(text)
    return number


def seconds(text: str) -> float:
    """A finite time, with a fraction or without. Raises ValueError."""
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError(text)
    return number


def duration(text: str) -> float:
    """A time that is not 0. Raises ValueError."""
    number = seconds(text)
    if not number:
        raise ValueError(text)
    return number


def folder(text: str) -> str:
    """An absolute path. Raises ValueError."""
    if not text.startswith("/"):
        raise ValueError(text)
    return text


def addresses(text: str) -> dict[str, str]:
    """`host=address,host=address`. Raises ValueError."""
    parts = [item.partition("=") for item in text.split(",") if item.strip()]
    if not all(host and address for host, _, address in parts):
        raise ValueError(text)
    return {host.strip(): address.strip() for host, _, address in parts}


def one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    """A function that takes one of `names`, as it is written, and else raises ValueError."""

    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(text)
        return text

    return parse


def severities(text: str) -> dict[str, str]:
    """`check=off,check=warn`: names of checks with off, warn or fail. Raises ValueError."""
    parts = [item.partition("=") for item in text.split(",") if item.strip()]
    found = {name.strip(): value.strip() for name, _, value in parts}
    if not all(name and value in ("off", "warn", "fail") for name, value in found.items()):
        raise ValueError(text)
    return found
