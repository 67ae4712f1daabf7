"""`python -m muster_perf all_reduce -b 8 -e 1M`: the same without a command on PATH."""

from __future__ import annotations

import sys

from muster_perf.commands import main
from muster_perf.operations import OPERATIONS

if __name__ == "__main__":
    if sys.argv[1:2] == [] or sys.argv[1] not in OPERATIONS:
        sys.exit(f"usage: python -m muster_perf {{{','.join(OPERATIONS)}}} [flags]")
    sys.exit(main(sys.argv[1], sys.argv[2:]))
