"""Versions: what the image keeps, what was found, what has changed. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_KEPT = re.compile(
    r"torch|torchvision|torchaudio|triton|pytorch-triton.*|nvidia-.*|cuda-.*|horovod|numpy"
    r"|smdistributed-.*"
)
"""What the image has built or chosen for its torch. Everything else may change."""
_PIN = re.compile(r"^\s*([A-Za-z0-9][\w.-]*)\s*={2,3}\s*([^\s;#]+)")
_SHOWN = 8


@dataclass(frozen=True)
class Found:
    """What the user's Python holds, and what of it the requirements would change (probe.py)."""

    python: str
    installed: Mapping[str, str]
    pip: str
    """pip's version; empty where there is none."""
    managed: bool
    """Whether the system keeps this Python to itself (PEP 668)."""
    kept: Mapping[str, str]
    """A specifier for each package that must stay: `==2.13.0+cpu`."""
    conflicts: tuple[tuple[str, str, str], ...]
    """File, line and package of each requirement that can't be met so."""
    hashes: bool
    empty: bool
    """Whether the file asks for nothing."""
    config: Mapping[str, str]
    """pip's own settings, from its files and variables."""
    lines: tuple[str, ...] = ()


def found_from(answer: Mapping[str, Any]) -> Found:
    """The answer of probe.py as data."""
    values = {**answer, "conflicts": tuple((p, line, n) for p, line, n in answer["conflicts"])}
    return Found(**{**values, "lines": tuple(answer["lines"])})


def normal(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_kept(name: str) -> bool:
    """Whether a package is one of those that the image's torch stands or falls with."""
    return bool(_KEPT.fullmatch(normal(name)))


def pins(text: str) -> dict[str, str]:
    """Of a constraints file, the versions of the packages that must stay."""
    found = (_PIN.match(line) for line in text.splitlines())
    named = {normal(match[1]): match[2] for match in found if match}
    return {name: version for name, version in named.items() if is_kept(name)}


def constraints(kept: Mapping[str, str]) -> str:
    """The text of a constraints file."""
    return "".join(f"{name}{rule}\n" for name, rule in kept.items())


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Of the packages that were there, those with another version now: `numpy 2.4.6 -> 2.4.1`."""
    return tuple(
        f"{name} {version} -> {after.get(name, 'gone')}"
        for name, version in sorted(before.items())
        if after.get(name) != version
    )


def added(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """What was installed: `einops 0.8.1`, the changed ones included."""
    return tuple(
        f"{name} {version}"
        for name, version in sorted(after.items())
        if before.get(name) != version
    )


def short(items: Sequence[str]) -> str:
    """The first of the items, and how many more there are."""
    rest = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
