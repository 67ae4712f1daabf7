"""From how the ranks ended to how the job ended on this host. Pure.

The ranks' own statuses decide; a launcher's status counts only when no rank has
one. The root cause is the earliest real error, not the loudest: when a rank dies,
its neighbours fail too, with errors about the lost connection.
"""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from muster.errors import SIGNAL_BASE, STATUS_OF_KIND
from muster.launch.evidence import Evidence
from muster.launch.explain import DETAIL_LINES, explain, out_of_memory, overdue, signal_name
from muster.launch.xids import Xid, broken, fatal, hinted, may_explain
from muster.model import Cause, Outcome, RankEnd

_CONSEQUENCES = (
    "connection closed by peer",
    "connection reset by peer",
    "broken pipe",
    "remote process exited",
    "ncclremoteerror",
    "socket timeout",
    "childfailederror",
)
"""What a rank says when another one has gone, in lower case."""

_NOTHING = Evidence()


@dataclass(frozen=True)
class LauncherEnd:
    """How the launcher ended: its code, or -n for signal n, and its last lines on stderr."""

    name: str
    code: int
    stderr_tail: tuple[str, ...] = ()
    left_ranks: bool = False
    """Whether it ended while ranks were alive, so that the harness had to end them."""
    time: float = 0.0
    """When that was seen, in seconds since the epoch; 0 when it has not ended."""


def decide(
    host: str,
    ends: Sequence[RankEnd],
    launcher: LauncherEnd,
    *,
    expected: int,
    stop_signal: int = 0,
    evidence: Evidence = _NOTHING,
) -> Outcome:
    """The outcome of this host.

    Args:
        host: this host's name.
        ends: how its ranks ended.
        launcher: how their launcher ended.
        expected: how many ranks there should have been.
        stop_signal: the signal that asked the container to stop, or 0.
        evidence: what the kernel has counted, and GPUs have told, since the ranks began.
    """
    failed = [end for end in ends if end.code != 0]
    root = _root(failed) if failed else None
    culprit = _culprit(evidence, ends, root, expected)
    if culprit:
        cause = _broken(host, culprit, root, evidence)
    elif launcher.left_ranks and (root is None or _is_ours(root)):
        cause = _launcher_left(host, launcher, evidence)
    elif stop_signal and root and root.killed:
        cause = _weighed(overdue(host, [end for end in failed if end.killed], stop_signal), root)
    elif root:
        cause = _weighed(_explained(host, root, evidence), root)
    elif stop_signal and len(ends) < expected:
        cause = _stopped(host, stop_signal)
    elif len(ends) < expected:
        cause = _not_started(host, launcher, len(ends), expected)
    else:
        return Outcome(0, None, tuple(ends), stop_signal)
    return Outcome(cause.status, cause, tuple(ends), stop_signal)


def _root(failed: Sequence[RankEnd]) -> RankEnd:
    """The earliest failure that is neither our doing nor an echo of another."""

    def order(end: RankEnd) -> tuple[bool, bool, float]:
        return _is_ours(end), is_consequence(end), _failed_at(end)

    return min(failed, key=order)


def _culprit(
    evidence: Evidence, ends: Sequence[RankEnd], root: RankEnd | None, expected: int
) -> Xid | None:
    """The error on a GPU that has ended the ranks, or for which the harness has.

    A rank that fails with it is its echo. One that had failed long before is a cause of its own;
    ranks that had all ended well, or for a stop, have not been hit.
    """
    xid = fatal(evidence.xids)
    if xid is None:
        return None
    if root and not _is_ours(root):
        return xid if may_explain(xid, _failed_at(root)) else None
    asked = any(end.signalled and end.signalled_time >= xid.event.time for end in ends)
    return xid if asked or len(ends) < expected else None


def _broken(host: str, xid: Xid, root: RankEnd | None, evidence: Evidence) -> Cause:
    if root is None or _is_ours(root):
        return broken(host, xid, "", 0.0)
    echo = f"rank {root.rank}: {explain(host, root, evidence).headline}"
    return broken(host, xid, echo, _failed_at(root))


def _explained(host: str, root: RankEnd, evidence: Evidence) -> Cause:
    cause = explain(host, root, evidence)
    return cause if _is_ours(root) else hinted(cause, evidence.xids, _failed_at(root))


def _weighed(cause: Cause, end: RankEnd) -> Cause:
    """`cause` with what the choice between the hosts goes by."""
    return dataclasses.replace(
        cause, time=_failed_at(end), asked=_is_ours(end), echo=is_consequence(end)
    )


def _failed_at(end: RankEnd) -> float:
    return end.error.time if end.error else end.time


def _is_ours(end: RankEnd) -> bool:
    """Whether it failed because the harness had asked it to end."""
    return bool(end.signalled) and _failed_at(end) >= end.signalled_time


def is_consequence(end: RankEnd) -> bool:
    """Whether a rank's failure speaks of another's: it may have come before the other's end."""
    text = end.error.headline if end.error else " ".join(end.stderr_tail[-3:])
    return any(phrase in text.lower() for phrase in _CONSEQUENCES)


def _stopped(host: str, number: int) -> Cause:
    headline = f"stopped by {signal_name(number)} before all ranks had begun"
    return Cause(headline, "signal", SIGNAL_BASE + number, host, asked=True)


def _launcher_left(host: str, launcher: LauncherEnd, evidence: Evidence) -> Cause:
    detail = "\n".join(launcher.stderr_tail[-DETAIL_LINES:])
    if launcher.code == -signal.SIGKILL and evidence.oom_kills:
        # The kernel takes one of the container's processes, not the one that is to blame.
        return dataclasses.replace(out_of_memory(host, launcher.name, evidence), time=launcher.time)
    headline = f"{launcher.name} ended {_how(launcher)} before its ranks, which had to be ended"
    return _launch_cause(headline, host, launcher, detail)


def _not_started(host: str, launcher: LauncherEnd, began: int, expected: int) -> Cause:
    how = _how(launcher)
    headline = f"{launcher.name} ended {how} when {began} of {expected} ranks had begun"
    detail = "\n".join(launcher.stderr_tail[-DETAIL_LINES:])
    return _launch_cause(headline, host, launcher, detail)


def _launch_cause(headline: str, host: str, launcher: LauncherEnd, detail: str) -> Cause:
    return Cause(
        headline=headline,
        kind="launch",
        status=STATUS_OF_KIND["launch"],
        host=host,
        detail=detail,
        time=launcher.time,
        # A launcher gives up when another host's has gone; one that is killed does not.
        echo=launcher.code >= 0,
    )


def _how(launcher: LauncherEnd) -> str:
    code = launcher.code
    return f"by {signal_name(-code)}" if code < 0 else f"with status {code}"
