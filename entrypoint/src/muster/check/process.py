"""Ends what a check has started. Effects: processes (signals)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Any

_WAIT_S = 1.0


def end_group(process: subprocess.Popen[Any]) -> None:
    """Kills a process that leads a group, with its group. Doesn't wait for one that the kernel holds."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_WAIT_S)
