"""Looks that may hang: at a dead file server, a dead name server. Effects: threads, and those of the looks.

A thread that hangs in the kernel costs nothing but itself, and goes with the process.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Late(Exception):  # noqa: N818  (an answer, not a failure of ours)
    """It has not answered in time."""


def all_within(
    limit_s: float, looks: Mapping[K, Callable[[], V]], workers: int = 32
) -> dict[K, V | Exception]:
    """What each look has found, in the order of `looks`; its exception where it has failed.

    Args:
        limit_s: seconds for all of them together. Who is later has a Late.
        looks: what is called, by any key.
        workers: how many are called at once.
    """
    left: queue.SimpleQueue[tuple[K, Callable[[], V]]] = queue.SimpleQueue()
    found: dict[K, V | Exception] = {}
    done = threading.Semaphore(0)
    for item in looks.items():
        left.put(item)

    def work() -> None:
        while True:
            try:
                key, look = left.get_nowait()
            except queue.Empty:
                return
            try:
                found[key] = look()
            except Exception as error:  # noqa: BLE001  (it is the answer)
                found[key] = error
            done.release()

    for _ in range(min(workers, len(looks))):
        threading.Thread(target=work, daemon=True).start()
    deadline = time.monotonic() + limit_s
    for _ in looks:
        if not done.acquire(timeout=max(0.0, deadline - time.monotonic())):
            break
    known = found.copy()
    late = Late(f"it has not answered within {limit_s:g} s")
    return {key: known.get(key, late) for key in looks}
