"""What several checks need is looked up once. Effects: those of the look."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from muster.check.finding import Here

T = TypeVar("T")
_guard = threading.Lock()


def once(here: Here, name: str, look: Callable[[], T]) -> T:
    """What `look` has found for the first check that asked; the others wait for it.

    A look that raises has found nothing: the next check looks again.
    """
    with _guard:
        lock, found = here.kept.setdefault(name, (threading.Lock(), []))
    with lock:
        if not found:
            found.append(look())
    answer: T = found[0]
    return answer
