"""A rank that works until it is told to fail: then it raises, or it goes on for long."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

LIMIT_S = 120.0


def main() -> int:
    """Say that this rank is there, and wait. Effects: a file in BENCH_FOLDER. Raises ValueError when told to."""
    folder = Path(os.environ["BENCH_FOLDER"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ready").touch()
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if (folder / "go").exists():
            raise ValueError("bad label 7")
        time.sleep(0.05)
    return 0


sys.exit(main())
