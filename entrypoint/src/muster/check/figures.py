"""Figures as people write and read them. Pure."""

from __future__ import annotations

import re

_MINUTE, _HOUR = 60, 3600
_TO_TENTHS_S = 10
"""Below this a person compares tenths of a second."""
_LARGE, _MANY = 3, 100
"""From this unit on, and up to so many of it, the same of sizes: 1.2 TiB, 64 MiB, 102 GB."""
_UNITS = {"": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP]?)(I?)B", re.IGNORECASE)
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|)", re.IGNORECASE)


def memory(count: float) -> str:
    """Bytes of memory or of a disk, in powers of 1024: 64 MiB."""
    return _scaled(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def data(count: float) -> str:
    """Bytes of data, in powers of 1000 as storage is sold: 102 GB."""
    return _scaled(count, 1000, ("B", "kB", "MB", "GB", "TB", "PB"))


def time(seconds: float) -> str:
    """A time: 0.4 s, 7 min, 2.5 h."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.1f} s" if seconds < _TO_TENTHS_S else f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:.1f} h"


def counted(number: int, thing: str) -> str:
    """So many of a thing: 1 rank, 2 ranks; and processes where there are several."""
    ending = "es" if thing.endswith("s") else "s"
    return f"{number} {thing}{'' if number == 1 else ending}"


def read_size(text: str) -> int:
    """Bytes: 100GB, 1.5 TB, 800 GiB. Raises ValueError; also for 0."""
    match = _SIZE.fullmatch(text.strip())
    if not match or not float(match[1]):
        raise ValueError(text)
    number, prefix, binary = match.groups()
    power = _UNITS[prefix.upper()] if prefix else 0
    return int(float(number) * (1024 if binary else 1000) ** power)


def read_time(text: str) -> float:
    """Seconds: 30, 30s, 5min, 1.5h. Raises ValueError; also for 0."""
    match = _TIME.fullmatch(text.strip())
    if not match or not float(match[1]):
        raise ValueError(text)
    return (
        float(match[1])
        * {"": 1, "s": 1, "m": _MINUTE, "min": _MINUTE, "h": _HOUR}[match[2].lower()]
    )


def _scaled(count: float, base: int, units: tuple[str, ...]) -> str:
    power = 0
    while count >= base and power < len(units) - 1:
        count, power = count / base, power + 1
    digits = 1 if power >= _LARGE and count < _MANY else 0
    return f"{count:.{digits}f} {units[power]}"
