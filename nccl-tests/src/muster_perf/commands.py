"""The programs: all_reduce_perf and its like. Effects: the run's; the exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from muster_perf.errors import PerfError, complain
from muster_perf.flags import parse
from muster_perf.operations import OPERATIONS


def main(name: str, words: Sequence[str] | None = None) -> int:
    """Runs the operation of that name; returns the exit status.

    Args:
        name: all_reduce, and so on.
        words: the command line; the process's own by default.
    """
    operation = OPERATIONS[name]
    given = list(sys.argv[1:] if words is None else words)
    flags = parse(operation.command, given)
    # Only now: torch takes seconds to import, and a misspelt flag shouldn't.
    from muster_perf.run import run  # noqa: PLC0415

    try:
        return run(operation, flags, os.environ, [operation.command, *given])
    except PerfError as error:
        return complain(operation.command, error)


def _command(name: str) -> Callable[[], int]:
    def command() -> int:
        return main(name)

    return command


all_reduce_perf = _command("all_reduce")
all_gather_perf = _command("all_gather")
reduce_scatter_perf = _command("reduce_scatter")
alltoall_perf = _command("alltoall")
broadcast_perf = _command("broadcast")
reduce_perf = _command("reduce")
gather_perf = _command("gather")
scatter_perf = _command("scatter")
sendrecv_perf = _command("sendrecv")
