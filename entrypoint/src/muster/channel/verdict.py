"""Which of several failures is the root cause. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from muster.channel import message as msg
from muster.channel.roster import HostState
from muster.channel.wire import Message
from muster.errors import STATUS_OF_KIND
from muster.model import Cause


def root_cause(causes: Iterable[Cause]) -> Cause | None:
    """The earliest failure that was not asked for and does not speak of another one.

    Args:
        causes: at most one a host, their times on one clock; 0 where it isn't known.
    """

    def order(cause: Cause) -> tuple[bool, bool, float]:
        return cause.asked, cause.echo, cause.time or float("inf")

    return min(causes, key=order, default=None)


def told_cause(host: HostState, message: Message) -> Cause | None:
    """The cause that a host tells, its time on the leader's clock.

    Raises:
        WireError: what it tells is none.
    """
    cause = msg.unpack_cause(message.get("cause"))
    if cause is None:
        return None
    # A host that could not read its own name is known here all the same.
    where = host.name if cause.host == "-" else cause.host
    time = cause.time - host.offset if cause.time else 0.0
    return dataclasses.replace(cause, host=where, time=time)


def lost_cause(host: str, how: str, since: float) -> Cause:
    """A host that is gone: its machine, its container, its harness, or the way to it.

    Args:
        host: its name.
        how: what is known, as the end of "host NAME was lost: …".
        since: seconds since the epoch, when it was last heard of.
    """
    return Cause(
        headline=f"host {host} was lost: {how}",
        kind="lost",
        status=STATUS_OF_KIND["lost"],
        host=host,
        remedy=(
            "Its container was killed (out of memory?), its machine failed, or the network "
            "between the hosts did. Its own log ends with what it was doing."
        ),
        time=since,
    )
