"""Which rank's output goes where (MUSTER_LOG, MUSTER_LOG_DIR). Pure, but for the files' own writes.

rank0-raw   rank 0's lines as they are, which users' metric patterns expect; the others' with
            their host and rank in front
prefix      every rank's with host and rank in front
rank0       rank 0's alone, as they are
failed      nobody's; of a rank that fails, the end

Where something is not shown, every rank's output is in files, whole.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from muster.launch.ranklog import RankLog
from muster.settings import LOG_MODES

_HIDING = ("rank0", "failed")


@dataclass(frozen=True)
class LogPolicy:
    """What MUSTER_LOG says for the ranks of one host.

    Args:
        mode: one of LOG_MODES.
        host: this host's name.
        folder: where the ranks' files go; none are written when it is empty.
    """

    mode: str
    host: str
    folder: str

    def label(self, rank: int) -> bytes:
        """What stands before the rank's lines wherever they need a label."""
        return f"[{self.host} {rank}] ".encode()

    def prefix(self, rank: int) -> bytes:
        """What stands before the rank's lines in the log."""
        return self.label(rank) if rank or self.mode == "prefix" else b""

    def shows(self, rank: int) -> bool:
        return self.mode not in _HIDING or (rank == 0 and self.mode == "rank0")

    def file(self, rank: int, stream: str) -> RankLog | None:
        """The file of one of the rank's streams, `stdout` or `stderr`."""
        if not self.folder:
            return None
        return RankLog(os.path.join(self.folder, f"rank-{rank}.{stream}"))


def make_policy(mode: str, host: str, chosen: str | None, fallback: str) -> LogPolicy:
    """The policy; what is hidden from the log always has files, in `fallback` if none is chosen."""
    assert mode in LOG_MODES
    return LogPolicy(mode, host, chosen or (fallback if mode in _HIDING else ""))
