"""Which part this host plays: alone, the leader, or a member. Effects: a listener on the leader."""

from __future__ import annotations

import time
from collections.abc import Sequence

from muster.channel.coordinator import Coordinator, Limits
from muster.channel.meeting import Meeting
from muster.channel.peer import Alone, Peer
from muster.settings import Settings
from muster.signals import Inbox

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

    key = job_key(identity, settings.job_secret)
    resolver = Resolver(settings.addresses)
    peer: Peer
    if host == hosts[0]:
        from muster.channel.leader import Leader, Rules, listen  # noqa: PLC0415

        listener = listen(settings.port, settings.addresses.get(host, ""))
        limits = Limits(
            rollcall=settings.rollcall_s,
            settle=settings.settle_s,
            straggle=settings.straggle_s,
            ending=settings.abort_grace_s + _REPORT_S,
        )
        coordinator = Coordinator(hosts, limits, time.monotonic())
        rules = Rules(settings.admit == "name", settings.beat_s, settings.silence_s)
        peer = Leader(host, coordinator, listener, key, resolver, rules)
    else:
        from muster.channel.member import Member, Route  # noqa: PLC0415

        route = Route(
            leader=hosts[0],
            port=settings.port,
            patience=settings.rollcall_s,
            beat=settings.beat_s,
            silence=settings.silence_s,
        )
        peer = Member(host, key, resolver, route)
    # Only against a defect of ours: while a peer lives it is waited for, and silence ends it.
    patience = settings.stop_grace_s + settings.abort_grace_s + 3 * _REPORT_S
    return Meeting(host, peer, inbox, several=True, patience=patience)


def alone(host: str, settings: Settings, inbox: Inbox) -> Meeting:
    """The meeting of a host with itself: whether it is over, it alone decides."""
    never = float("inf")
    limits = Limits(settle=never, echo=never, straggle=settings.straggle_s, ending=never)
    peer = Alone(host, Coordinator([host], limits, time.monotonic()))
    return Meeting(host, peer, inbox, several=False, patience=_REPORT_S)
