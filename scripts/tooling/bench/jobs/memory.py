"""Prints the memory of a process and of all below it, as JSON, once the ranks of wait.py are there; then lets them go.

    memory.py FOLDER RANKS PID

Runs where the job runs, also inside a container. One object a process: pid, words (its command line), and rss, pss and
private in bytes. The first is PID itself.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

LIMIT_S = 60.0
PROC = Path("/proc")
KIB = 1024


def parents() -> dict[int, int]:
    """Return each process's parent. Effects: reads /proc."""
    found = {}
    for path in PROC.glob("[0-9]*/stat"):
        try:
            # The name in brackets may hold anything, also blanks and brackets.
            found[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    return found


def family(root: int, parent_of: dict[int, int]) -> list[int]:
    """Return `root` and all processes below it. Pure."""
    found = [root]
    for pid in found:
        found += [child for child, parent in parent_of.items() if parent == pid]
    return found


def memory(pid: int) -> dict[str, object] | None:
    """Return one process's memory; None when it is gone. Effects: reads /proc."""
    try:
        text = (PROC / str(pid) / "smaps_rollup").read_text()
        words = (PROC / str(pid) / "cmdline").read_text().split("\0")[:-1]
    except OSError:
        return None
    kib = {
        name: int(number) for name, number in re.findall(r"^(\w+): +(\d+) kB", text, re.MULTILINE)
    }
    private = kib.get("Private_Clean", 0) + kib.get("Private_Dirty", 0)
    sizes = {"rss": kib.get("Rss", 0), "pss": kib.get("Pss", 0), "private": private}
    return {"pid": pid, "words": words, **{name: size * KIB for name, size in sizes.items()}}


def main(folder: Path, ranks: int, root: int) -> int:
    """Wait, look, print, let go; 1 when the ranks don't come. Effects: a file in `folder`."""
    deadline = time.monotonic() + LIMIT_S
    while len(list(folder.glob("ready-*"))) < ranks:
        if time.monotonic() > deadline:
            return 1
        time.sleep(0.05)
    time.sleep(0.3)  # what the last start has touched is settled
    found = [memory(pid) for pid in family(root, parents())]
    print(json.dumps([one for one in found if one]))
    (folder / "go").touch()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
