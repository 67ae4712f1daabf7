"""Names of variables for the job's channels and hyperparameters. Pure.

AWS's toolkit only upper-cases a key, so `my-data` becomes SM_CHANNEL_MY-DATA, which no
shell can read; ModelTrainer writes SM_HP_LEARNING_RATE. Both spellings are set
(contract.md 1.5).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """Which key each variable speaks for."""

    keys: Mapping[str, str]
    """The key by its variable's name."""
    shared: Mapping[str, tuple[str, ...]]
    """All keys that would have a variable, the winner last, where they are several."""


def make_names(prefix: str, keys: Iterable[str]) -> Names:
    """The variables of `keys`, each in AWS's spelling and in one that a shell can read.

    Of two keys that differ in case alone the later one wins, as in the toolkit. A name that is
    some key's own is never taken by another key's shell spelling; of two of those the first wins.
    """
    owners: defaultdict[str, list[str]] = defaultdict(list)
    borrowers: defaultdict[str, list[str]] = defaultdict(list)
    for key in keys:
        own = _own(prefix, key)
        readable = prefix + re.sub(r"[^A-Z0-9_]", "_", key.upper())
        if own:
            owners[own].append(key)
        if own != readable:
            borrowers[readable].append(key)
    # The winner stands last.
    claims = {
        name: (*reversed(borrowers[name]), *owners[name]) for name in sorted({*owners, *borrowers})
    }
    return Names(
        keys={name: claimants[-1] for name, claimants in claims.items()},
        shared={name: claimants for name, claimants in claims.items() if len(claimants) > 1},
    )


def _own(prefix: str, key: str) -> str | None:
    """AWS's spelling; None where no variable can have such a name."""
    upper = key.upper()
    return prefix + upper if upper and "=" not in upper else None
