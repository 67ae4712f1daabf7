"""Ranks that live and don't get on: stopped by somebody, or asked where they are.

Effects: signals processes, reads /proc.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

from muster.launch.proc import field, processes
from muster.launch.ranks import Rank, Ranks
from muster.log import say
from muster.training.dump import SIGNAL

_LOOK_S = 2.0
"""How often is looked whether somebody has stopped a rank."""
_STACKS_S = 0.5
"""How long a rank may take to print where it is."""
_LINES = 40
_NEVER = float("inf")


class Lookout:
    """Looks at the ranks from outside.

    Args:
        ranks: of this host.
        patience: seconds that a rank may stay stopped by SIGSTOP.
    """

    def __init__(self, ranks: Ranks, patience: float) -> None:
        self.frozen: tuple[int, float] | None = None
        """A rank that was stopped for too long, and since when on the monotonic clock."""
        self._ranks = ranks
        self._patience = patience
        self._since: dict[int, float] = {}
        self._next_look = time.monotonic() + _LOOK_S
        self._stacks_at = _NEVER

    def next_due(self) -> float:
        """When to look again, on the monotonic clock."""
        return min(self._next_look, self._stacks_at)

    def look(self) -> bool:
        """Whether a rank was found that has been stopped for too long. True once."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + _LOOK_S
        if self.frozen:
            return False
        stopped = [rank.rank for rank in self._ranks.living if is_frozen(rank)]
        self._since = {number: self._since.get(number, now) for number in stopped}
        over = [(n, since) for n, since in self._since.items() if now - since >= self._patience]
        self.frozen = over[0] if over else None
        return self.frozen is not None

    def ask_for_stacks(self) -> None:
        """Asks the ranks that live to print where they are."""
        for rank in self._ranks.living:
            able = bool(rank.pid) and _ask(rank.pid)
            where = "asking where it is" if able else "and can't be asked where it is"
            say(f"rank {rank.rank} still runs, {where}")
        self._stacks_at = time.monotonic() + _STACKS_S

    def stacks(self) -> Iterator[tuple[int, str]]:
        """What they have printed, by rank, once, when they have had the time for it."""
        if time.monotonic() >= self._stacks_at:
            self._stacks_at = _NEVER
            for rank in self._ranks.living:
                yield rank.rank, _printed(rank.stderr.tail_lines())


def is_frozen(rank: Rank) -> bool:
    """Whether somebody has stopped its process (SIGSTOP); a debugger's stop does not count."""
    return bool(rank.pid) and field(rank.pid, "status", "State") == "T"


def wake(rank: Rank) -> None:
    """Continues a rank that was stopped: else it would not hear of any other signal."""
    if is_frozen(rank):
        rank.signal(signal.SIGCONT, ending=False)


def _ask(pid: int) -> bool:
    """Asks a rank's process, or what a shell in its place has started. False when none can.

    Only where the signal is caught: it would end any other program.
    """
    children = [process.pid for process in processes() if process.parent == pid]
    able = [each for each in (pid, *children) if _catches(each)]
    for each in able[:1]:
        try:
            os.kill(each, SIGNAL)
        except ProcessLookupError:
            return False
    return bool(able)


def _catches(pid: int) -> bool:
    mask = field(pid, "status", "SigCgt") or "0"
    return bool(int(mask, 16) >> (SIGNAL - 1) & 1)


def _printed(tail: tuple[str, ...]) -> str:
    """The stacks among a rank's last lines; all of these where none can be told apart."""
    begins = [
        number
        for number, line in enumerate(tail)
        if line.startswith(("Thread 0x", "Current thread 0x"))
    ]
    return "\n".join(tail[begins[0] if begins else 0 :][-_LINES:])
