"""Prints many lines, and writes down how long that took.

BENCH_LINES lines of 100 bytes; with BENCH_FIRST that text alone on a line before them. The seconds go into the
file `seconds` in BENCH_FOLDER, so that a log which comes late or changed does not matter.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def main() -> None:
    """Print as usual; torchrun starts Python with -u, so that each line is written at once. Effects: stdout, a file."""
    folder = Path(os.environ["BENCH_FOLDER"])
    folder.mkdir(parents=True, exist_ok=True)
    if first := os.environ.get("BENCH_FIRST"):
        print(first, flush=True)
        # Else it would come in one read with the next lines, which no real warning does.
        time.sleep(0.2)
    rest = "x" * 85
    started = time.perf_counter()
    for number in range(int(os.environ["BENCH_LINES"])):
        print(f"line {number:08d} {rest}")
    sys.stdout.flush()
    seconds = time.perf_counter() - started
    (folder / "seconds").write_text(f"{seconds}\n", encoding="utf-8")


main()
