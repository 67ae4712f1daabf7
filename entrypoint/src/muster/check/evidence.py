"""What several checks need, found out once: the first that asks does it, the others wait for it. Effects: those of the look."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from muster.check.finding import Here

T = TypeVar("T")
_LOCK = threading.Lock()


class _Kept:
    """One thing that is known, or is being found out."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: list[Any] = []


def once(here: Here, name: str, find: Callable[[], T]) -> T:
    """What `find` has found the first time that `name` was asked for on this host.

    Raises:
        Exception: what `find` raises; the next that asks tries again.
    """
    with _LOCK:
        kept: _Kept = here.kept.setdefault(name, _Kept())
    with kept.lock:
        if not kept.value:
            kept.value.append(find())
        found: T = kept.value[0]
        return found
