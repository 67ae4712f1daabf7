"""What the leader is told of this host's ranks while they run. Effects: messages to the leader."""

from __future__ import annotations

import time
from collections.abc import Callable

from muster.channel.meeting import Meeting
from muster.channel.message import pack_cause
from muster.launch.ranks import Ranks
from muster.model import Cause, Outcome

_RETELL_S = 0.2
"""How soon a failure is told again when more is known of it: its last lines come by another way."""


class Telling:
    """Tells each thing once, and again when it has changed.

    Args:
        meeting: the hosts of the job.
        ranks: of this host.
        expected: how many there should be.
    """

    def __init__(self, meeting: Meeting, ranks: Ranks, expected: int) -> None:
        self._meeting = meeting
        self._ranks = ranks
        self._expected = expected
        self._cause: Cause | None = None
        self._at = 0.0
        self._counts = (0, 0)

    def next_due(self, *, stopped: bool) -> float | None:
        """When a failure is to be told again, on the monotonic clock."""
        return self._at + _RETELL_S if self._cause and self._tells_failures(stopped) else None

    def tell(self, account: Callable[[], Outcome], *, failed: bool, stopped: bool) -> None:
        """Tells what is new.

        Args:
            account: how this host's ranks have ended so far.
            failed: whether there is a failure to be told of.
            stopped: whether the job was asked to stop.
        """
        living = len(self._ranks.living)
        counts = (sum(rank.code == 0 for rank in self._ranks.all), living)
        if counts != self._counts and len(self._ranks.all) >= self._expected:
            self._counts = counts
            self._meeting.peer.tell({"type": "ranks", "done": counts[0], "living": living})
        now = time.monotonic()
        if failed and self._tells_failures(stopped) and now >= self._at + _RETELL_S:
            cause, self._at = account().cause, now
            if cause and cause != self._cause:
                self._cause = cause
                self._meeting.peer.tell({"type": "failed", "cause": pack_cause(cause)})

    def _tells_failures(self, stopped: bool) -> bool:
        """Whether a failure here is news to somebody: after a stop or a verdict it is not."""
        return self._meeting.several and not stopped and self._meeting.verdict is None
