"""What ends a benchmark before its table, and the statuses of its ends. Imports nothing of ours."""

from __future__ import annotations

import sys

OK = 0
FAILED = 1
"""Wrong values, a missed minimum, a world smaller than asked, or a world that can't be formed."""
REFUSED = 2
"""A command line that asks for what isn't there."""


class PerfError(Exception):
    """The benchmark can't be run as asked.

    Args:
        what: what is wrong. One line.
        remedy: what the user can do about it. May be empty.
        status: the exit status.
    """

    def __init__(self, what: str, remedy: str = "", status: int = FAILED) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.status = status


def complain(command: str, error: PerfError) -> int:
    """Says on stderr what is wrong, and returns the status. Every rank does: the launcher may show any one's last words."""
    for line in filter(None, (f"{command}: {error.what}", error.remedy)):
        print(line, file=sys.stderr, flush=True)
    return error.status
