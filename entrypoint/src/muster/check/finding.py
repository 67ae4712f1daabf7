"""What a check says of what it looks at, and how a check is described. Nothing here does anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from muster.model import Job
from muster.settings import Settings

Status = Literal["PASS", "WARN", "FAIL", "SKIP", "UNKNOWN"]
STATUSES: tuple[Status, ...] = ("FAIL", "WARN", "UNKNOWN", "SKIP", "PASS")
"""The worst first. UNKNOWN: it could not be looked at, which is never a PASS."""
Level = Literal["fast", "full"]


@dataclass(frozen=True)
class Finding:
    """What one look has found."""

    status: Status
    evidence: str
    """What was seen, in one line: figures, not opinions."""
    remedy: str = ""
    """What to do; WARN and FAIL have one."""


def passed(evidence: str) -> Finding:
    """All is well."""
    return Finding("PASS", evidence)


def skipped(why: str) -> Finding:
    """There is nothing of the kind here, or it is not asked for."""
    return Finding("SKIP", why)


def unknown(why: str) -> Finding:
    """It could not be looked at."""
    return Finding("UNKNOWN", why)


def combined(parts: Sequence[Finding]) -> Finding:
    """One finding of several looks, at folders or hosts: the worst of them, and what it was seen on.

    What could not be looked at is no PASS of the whole, and hides no WARN.
    """
    for status in ("FAIL", "WARN", "UNKNOWN", "PASS"):
        worst = [part for part in parts if part.status == status]
        if worst:
            remedies = dict.fromkeys(part.remedy for part in worst if part.remedy)
            evidence = "; ".join(part.evidence for part in worst)
            return Finding(worst[0].status, evidence, " ".join(remedies))
    return parts[0] if parts else skipped("there is nothing to look at")


@dataclass(frozen=True)
class Here:
    """What a check can look at: the job, and this host."""

    job: Job
    settings: Settings
    env: Mapping[str, str]
    """As the job's programs get it."""
    nproc: int
    """Ranks on this host."""
    level: Level
    proc: str = "/proc"
    sys: str = "/sys"
    dev: str = "/dev"
    kept: dict[str, Any] = field(default_factory=dict)
    """What several checks use, by the name of who has found it out (evidence.py)."""


def by_all(_here: Here) -> Finding:
    """The look of a check that one host alone can't make."""
    return skipped("it compares hosts")


@dataclass(frozen=True)
class Check:
    """One row of the registry."""

    name: str
    """`group.thing`, as users write it: host.shm."""
    level: Level
    what: str
    """What it looks at, for the page."""
    look: Callable[[Here], Finding]
    limits: str = ""
    """When it warns and fails, for the page."""
    source: str = ""
    """Where the limits come from."""
    timeout_s: float = 5.0
    together: bool = False
    """Whether the first host finds it out, from what all hosts have told (compare.py)."""
    remedy: str = ""
    """What to do about a WARN or FAIL, for the page."""


@dataclass(frozen=True)
class Result:
    """What a check has found on one host."""

    name: str
    status: Status
    evidence: str
    remedy: str
    seconds: float

    def pack(self) -> list[Any]:
        """As it travels between hosts."""
        return [self.name, self.status, self.evidence, self.remedy, round(self.seconds, 3)]

    @classmethod
    def unpack(cls, value: Any) -> Result:
        """The result in a message. Raises ValueError."""
        name, status, evidence, remedy, seconds = value
        if status not in STATUSES:
            raise ValueError(status)
        return cls(str(name), status, str(evidence), str(remedy), float(seconds))
