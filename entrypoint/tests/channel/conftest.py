"""A job's coordinator without a network, and what hosts tell it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from muster.channel.agreement import HostFacts
from muster.channel.coordinator import Coordinator
from muster.channel.message import pack_cause, unpack_cause
from muster.channel.phases import Limits
from muster.model import Cause

LIMITS = Limits(rollcall=900, settle=1, echo=2, straggle=600, ending=20)


def facts(*hosts: str, **changes: Any) -> HostFacts:
    """Return what a host of a job of `hosts` tells."""
    values: dict[str, Any] = {
        "hosts": hosts,
        "world": hosts,
        "group": "gpu",
        "nproc": 2,
        "muster": "0.1.0",
        "image": "ddp-cpu 123",
        "torch": "2.13.0",
        "interface": "eth0",
        "address": "",
        "master_port": 7777,
    }
    return HostFacts(**(values | changes))


def failure(headline: str, host: str, time: float, **changes: Any) -> Cause:
    """Return a script's failure."""
    values: dict[str, Any] = {"kind": "user", "status": 1, "rank": 1, "time": time}
    return Cause(headline=headline, host=host, **(values | changes))


class Hosts:
    """The hosts of a job, talking to a coordinator at times that the test says."""

    def __init__(self, *names: str, limits: Limits = LIMITS) -> None:
        self.names = names
        self.coordinator = Coordinator(names, limits, 0.0)
        self.got: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def collect(self) -> None:
        """Give out what the coordinator has sent."""
        while self.coordinator.outbox:
            name, message = self.coordinator.outbox.popleft()
            self.got[name].append(message)

    def join(self, *names: str, now: float = 0.0, offset: float = 0.0, **changes: Any) -> None:
        for name in names or self.names:
            self.coordinator.join(name, facts(*self.names, **changes), offset, now)
        self.collect()

    def say(self, name: str, kind: str, now: float, **fields: Any) -> None:
        self.coordinator.hear(name, {"type": kind, **fields}, now)
        self.collect()

    def fail(self, name: str, cause: Cause, now: float) -> None:
        self.say(name, "failed", now, cause=pack_cause(cause))

    def over(self, name: str, now: float, cause: Cause | None = None) -> None:
        self.say(name, "over", now, cause=pack_cause(cause))

    def lose(self, name: str, now: float, since: float) -> None:
        self.coordinator.lose(name, "its connection was closed", now, since)
        self.collect()

    def tick(self, now: float) -> None:
        self.coordinator.tick(now)
        self.collect()

    def run(self, now: float = 1.0) -> None:
        """Bring all hosts to where their ranks run."""
        self.join(now=now)
        for name in self.names:
            self.say(name, "ready", now, launcher="torchrun")

    def kinds(self, name: str) -> list[str]:
        return [message["type"] for message in self.got[name]]

    def verdict(self, name: str) -> Cause | None:
        """Return the cause that a host was told; fails when it was told none, or two."""
        (message,) = [message for message in self.got[name] if message["type"] == "verdict"]
        return unpack_cause(message["cause"])


@pytest.fixture
def hosts() -> Callable[..., Hosts]:
    """Return a function that makes a job's hosts by their names."""
    return Hosts
