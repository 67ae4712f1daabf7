"""What the GPUs' XID errors have to do with the end of the ranks. Pure.

NVML tells of an error in its own time: a rank may fail of it a moment before it is told, or after.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from muster.check.gpu.xid import XID, Event, Kind, Meaning, meaning
from muster.errors import STATUS_OF_KIND
from muster.model import Cause

CHECK = "gpu.xid"
"""As users name it in MUSTER_CHECKS."""
_ENDING: dict[str, tuple[Kind, ...]] = {"warn": (), "fail": ("hardware", "suspect")}
"""What ends a job, by the severity that the user has given; without one it is the hardware alone."""
_HINTING: tuple[Kind, ...] = ("hardware", "suspect", "application")
"""What explains a rank's failure, the heaviest first."""
_BEFORE_S = 5.0
"""How long before it is told a hardware's error may have made a rank fail."""
_AFTER_S = 1.0
"""How long after a rank's failure what has made it fail may be told."""
_CLEARED_AWAY = 45
"""What a killed program may leave behind, whatever has killed it."""


@dataclass(frozen=True)
class Xid:
    """One event, as this job takes it."""

    event: Event
    meaning: Meaning
    ends: bool
    """Whether the job ends for it."""

    def record(self, host: str) -> dict[str, Any]:
        """As the run's record has it."""
        event = self.event
        return {
            "host": host,
            "gpu": event.index if event.index >= 0 else None,
            "uuid": event.uuid,
            "type": event.type,
            "number": event.number,
            "class": self.meaning.kind,
            "what": self.meaning.headline,
            "time": round(event.time, 3),
        }


def weigh(event: Event, severity: str = "") -> Xid:
    """An event, with what the user makes of gpu.xid: warn, fail, or nothing."""
    found = meaning(event)
    return Xid(event, found, found.kind in _ENDING.get(severity, ("hardware",)))


def fatal(xids: Sequence[Xid]) -> Xid | None:
    """The first that ends the job."""
    return next((xid for xid in xids if xid.ends), None)


def may_explain(xid: Xid, failed_at: float) -> bool:
    """Whether a failure at that time may be the echo of an error of the hardware."""
    return failed_at >= xid.event.time - _BEFORE_S


def broken(host: str, xid: Xid, echo: str, failed_at: float) -> Cause:
    """The cause that an error of the hardware is.

    Args:
        host: this host's name.
        xid: the error.
        echo: what a rank has said of it; empty when none has.
        failed_at: when that was.
    """
    return Cause(
        headline=f"{xid.meaning.headline} of {host}",
        kind="check",
        status=STATUS_OF_KIND["check"],
        host=host,
        detail=echo,
        remedy=f"{xid.meaning.remedy}\nMUSTER_CHECKS={CHECK}=warn goes on all the same.",
        # What it has done on other hosts comes after what it has done here.
        time=min(xid.event.time, failed_at) if echo else xid.event.time,
    )


def hinted(cause: Cause, xids: Sequence[Xid], failed_at: float) -> Cause:
    """A rank's own failure, its remedy beginning with the error on a GPU that came with it."""
    told = [xid for xid in xids if xid.meaning.kind in _HINTING and _in_time(xid, failed_at)]
    if not told:
        return cause
    xid = min(told, key=lambda one: _HINTING.index(one.meaning.kind))
    return dataclasses.replace(cause, remedy=f"{_hint(xid)} {cause.remedy}".strip())


def _in_time(xid: Xid, failed_at: float) -> bool:
    left_behind = xid.event.type == XID and xid.event.number == _CLEARED_AWAY
    return xid.event.time <= failed_at + (0.0 if left_behind else _AFTER_S)


def _hint(xid: Xid) -> str:
    event = xid.event
    what = f"XID {event.number}" if event.type == XID else xid.meaning.headline
    where = f" on GPU {event.index}" if event.type == XID and event.index >= 0 else ""
    return f"{what}{where}: {xid.meaning.remedy}"
