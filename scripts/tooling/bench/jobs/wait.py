"""A rank that does nothing until memory.py has looked at the processes around it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

LIMIT_S = 120.0


def main() -> int:
    """Say that this rank is there, and wait. Effects: a file in BENCH_FOLDER."""
    folder = Path(os.environ["BENCH_FOLDER"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"ready-{os.environ['RANK']}").touch()
    deadline = time.monotonic() + LIMIT_S
    while not (folder / "go").exists():
        if time.monotonic() > deadline:
            return 1
        time.sleep(0.05)
    return 0


sys.exit(main())
