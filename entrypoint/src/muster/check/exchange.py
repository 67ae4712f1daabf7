"""All hosts call each other, between two consultations: one for the addresses, and the checks' own for what came of it.

Effects: those of probing.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from muster.check.finding import Here
from muster.check.interface import interface, several
from muster.check.probing import Listener, call_all, peers_of

T = TypeVar("T")
TOPIC = "network"
CHECK = "net.reach"


class Consulting(Protocol):
    """What asks all hosts: a Meeting."""

    def consult(self, topic: str, data: Any, judge: Any) -> Any:
        """The leader's answer to what all hosts tell."""

    def during(self, work: Callable[[], T]) -> T:
        """What `work` returns, while the channel goes on."""

    def offsets(self) -> Mapping[str, float]:
        """Seconds that each host's clock is ahead, on the leader."""


@contextmanager
def calling(here: Here, meeting: Consulting, *, wanted: bool) -> Iterator[dict[str, Any]]:
    """What came of the calls to this host's peers, for the leader. This host answers until the end of the context.

    Args:
        here: this host.
        meeting: of all hosts.
        wanted: whether this host takes part. All consult all the same: none may wait for another.

    Raises:
        JobEnded, StopRequested: as Meeting.consult.
    """
    if not several(here):
        yield {}
        return
    told = interface(here).pack()
    listener = _listen(here, told) if wanted else None
    try:
        place = [listener.address, listener.port] if listener else None
        answer = meeting.consult(TOPIC, place, make_book)
        if listener:
            told |= _call(here, meeting, listener, answer)
        yield told
    finally:
        if listener:
            listener.close()


def _listen(here: Here, told: dict[str, Any]) -> Listener | None:
    """The listener on this host's own address; what it is, or why there is none, goes into `told`."""
    address = here.settings.addresses.get(here.job.current_host) or told["address"]
    if not address:
        told["trouble"] = "has no address on an interface between the hosts"
        return None
    try:
        listener = Listener(address)
    except OSError as error:
        told["trouble"] = f"can't listen on {address}: {error.strerror or error}"
        return None
    told["address"] = listener.address
    return listener


def make_book(data: Mapping[str, Any]) -> dict[str, Any]:
    """The leader's answer: a token, and where each host that takes part listens. Effects: random bytes."""
    book = {
        host: place
        for host, place in data.items()
        if isinstance(place, list)
        and [type(part) for part in place] == [str, int]
        and 0 < place[1] < 2**16
    }
    return {"token": os.urandom(16).hex(), "book": book}


def _call(
    here: Here, meeting: Consulting, listener: Listener, answer: Mapping[str, Any]
) -> dict[str, Any]:
    host, hosts, token = here.job.current_host, here.job.hosts, str(answer["token"])
    listener.serve(host, token)
    book = {
        peer: (str(answer["book"][peer][0]), int(answer["book"][peer][1]))
        for peer in peers_of(host, hosts)
        if peer in answer["book"]
    }
    calls = meeting.during(lambda: call_all(host, token, book))
    return {
        "reached": {peer: round(took, 3) for peer, took in calls.reached.items()},
        "failed": {peer: [*book[peer], why] for peer, why in calls.failed.items()},
        "callers": dict(listener.callers),
    }
