"""What the log says while hosts are missing: one line for each change. Pure, given the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.channel.roster import missing_and_why

_QUIET_S = 1.0
"""Hosts that start together come one after the other: a line for each would be noise."""

UNKNOWN = "its name does not resolve"


class RollCall:
    """The leader's lines.

    Args:
        total: hosts of the job.
        now: seconds on a monotonic clock, as in every other call.
    """

    def __init__(self, total: int, now: float) -> None:
        self._total = total
        self._began = now
        self._next = now + _QUIET_S
        self._said = ""

    def next_due(self) -> float:
        """When to ask again."""
        return self._next

    def line(self, missing: Sequence[str], reasons: Mapping[str, str], now: float) -> str:
        """What is to be said now; mostly nothing.

        Args:
            missing: the hosts that have not joined.
            reasons: why, as far as that is known.
            now: the time.
        """
        waited = now - self._began
        if not missing:
            return f"all {self._total} hosts are here after {waited:.1f} s"
        if now < self._next:
            return ""
        self._next = now + _QUIET_S
        state = missing_and_why(missing, reasons)
        if state == self._said:
            return ""
        self._said = state
        return _counted(missing, self._total, waited, state)


def given_up(
    missing: Sequence[str], total: int, reasons: Mapping[str, str], waited: float
) -> tuple[str, str]:
    """What is said when the hosts have had their time, and what to do. Arguments as for `line`."""
    remedy = (
        "The missing hosts' own logs say more. The job's security group must allow all TCP "
        "between its hosts. MUSTER_ROLLCALL_S is how long they may take."
    )
    return _counted(missing, total, waited, missing_and_why(missing, reasons)), remedy


def _counted(missing: Sequence[str], total: int, waited: float, state: str) -> str:
    here = total - len(missing)
    return f"{here} of {total} hosts after {waited:.0f} s, missing: {state}"
