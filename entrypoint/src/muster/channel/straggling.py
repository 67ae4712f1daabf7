"""Some ranks are done, others still run: that has a name. Pure."""

from __future__ import annotations

from muster.channel.roster import Roster, name_some
from muster.errors import STATUS_OF_KIND
from muster.model import Cause


def stalled(roster: Roster, seconds: float) -> Cause:
    """The cause of a job whose last ranks don't end.

    Args:
        roster: the hosts.
        seconds: how long ago the last rank has ended.
    """
    done = sum(host.done for host in roster)
    living = [host for host in roster if host.living]
    where = name_some([f"{host.living} on {host.name}" for host in living])
    headline = (
        f"{done} ranks are done, {sum(host.living for host in living)} still run "
        f"{seconds:.0f} s later: {where}"
    )
    stacks = [text for host in living for text in host.stacks]
    return Cause(
        headline=headline,
        kind="stalled",
        status=STATUS_OF_KIND["stalled"],
        host=living[0].name if living else roster.leader,
        detail="\n".join(stacks[:1]),
        remedy="If that is meant: MUSTER_STRAGGLE_S=0 waits for ever.",
    )
