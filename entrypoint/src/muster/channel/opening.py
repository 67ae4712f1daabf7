"""Which part this host plays: alone, the leader, or a member. Effects: a listener on the leader."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.channel.coordinator import Coordinator
from muster.channel.meeting import Meeting
from muster.channel.peer import Alone, Peer
from muster.channel.phases import Limits
from muster.settings import Settings
from muster.signals import Inbox

if TYPE_CHECKING:
    from muster.channel.names import Resolver

_REPORT_S = 10.0
"""For hosts to show their last lines and to write their reports, beside the time for the ranks."""


def open_meeting(
    identity: str, host: str, hosts: Sequence[str], settings: Settings, inbox: Inbox
) -> Meeting:
    """The meeting of a job's hosts.

    Args:
        identity: what names this run of the job, alike on all hosts.
        host: this host.
        hosts: all of them, in the job's order.
        settings: the harness's settings.
        inbox: this process's signals.

    Raises:
        RollCallError: this host leads, and its port can't be had.
    """
    if len(hosts) == 1:
        return alone(host, settings, inbox)
    # Not before: a job of one host needs neither sockets nor hashes.
    from muster.channel.key import job_key  # noqa: PLC0415
    from muster.channel.names import Resolver  # noqa: PLC0415

    key, resolver = job_key(identity, settings.job_secret), Resolver(settings.addresses)
    peer: Peer
    if host == hosts[0]:
        peer = _leader(hosts, settings, key, resolver)
    else:
        peer = _member(host, hosts[0], settings, key, resolver)
    # Only against a defect of ours: while a peer lives it is waited for, and silence ends it.
    patience = settings.stop_grace_s + settings.abort_grace_s + 3 * _REPORT_S
    return Meeting(peer, inbox, several=True, patience=patience)


def _leader(hosts: Sequence[str], settings: Settings, key: bytes, resolver: Resolver) -> Peer:
    from muster.channel.leader import Leader, Rules, listen  # noqa: PLC0415

    host = hosts[0]
    listener = listen(settings.port, settings.addresses.get(host, ""))
    limits = Limits(
        rollcall=settings.rollcall_s,
        settle=settings.settle_s,
        straggle=settings.straggle_s,
        ending=settings.abort_grace_s + _REPORT_S,
    )
    coordinator = Coordinator(hosts, limits, time.monotonic())
    rules = Rules(settings.admit == "name", settings.beat_s, settings.silence_s)
    return Leader(host, coordinator, listener, key, resolver, rules)


def _member(host: str, leader: str, settings: Settings, key: bytes, resolver: Resolver) -> Peer:
    from muster.channel.member import Member, Route  # noqa: PLC0415

    route = Route(
        leader=leader,
        port=settings.port,
        patience=settings.rollcall_s,
        beat=settings.beat_s,
        silence=settings.silence_s,
    )
    return Member(host, key, resolver, route)


def alone(host: str, settings: Settings, inbox: Inbox) -> Meeting:
    """The meeting of a host with itself: whether it is over, it alone decides."""
    never = float("inf")
    limits = Limits(settle=never, echo=never, straggle=settings.straggle_s, ending=never)
    peer = Alone(host, Coordinator([host], limits, time.monotonic()))
    return Meeting(peer, inbox, several=False, patience=_REPORT_S)
