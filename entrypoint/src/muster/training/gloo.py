"""Lets gloo's threads let go before Python ends.

With torch 2.13, DistributedDataParallel and the gloo backend, threads of the process
group outlive destroy_process_group(). One that still holds the last collective's
tensors needs Python's lock to drop them; where Python has begun to end by then, it
aborts the process: `terminate called without an active exception`, status 134, after
a training that was done. With bare torchrun about one run in ten ended so.

Effects: a pause of a tenth of a second at the end of a process that has such threads.
MUSTER_GLOO_PAUSE_S sets it; 0 turns it off.
"""

from __future__ import annotations

import os
import sys
import time

_THREADS = "pt_gloo"
"""How torch names them, in /proc/PID/task/TID/comm."""
_DEFAULT_S = 0.1


def let_threads_finish() -> None:
    """Gives Python's lock away for a moment, if there are threads that may wait for it."""
    if "torch" in sys.modules and _has_threads():
        time.sleep(_pause())


def _has_threads() -> bool:
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/comm", encoding="utf-8") as file:
                if file.read().startswith(_THREADS):
                    return True
    except OSError:
        return False
    return False


def _pause() -> float:
    try:
        return max(0.0, float(os.environ.get("MUSTER_GLOO_PAUSE_S", _DEFAULT_S)))
    except ValueError:
        return _DEFAULT_S
