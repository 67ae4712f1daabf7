"""This host's end of the channel, whatever its part is. Effects: those of the parts.

A job of one host has a coordinator too, and asks nobody (`Alone`). Of several hosts the first has
the coordinator and a listener (leader.py), the others a connection to it (member.py).
"""

from __future__ import annotations

import selectors
import time
from collections import deque

from muster.channel.agreement import HostFacts
from muster.channel.coordinator import Coordinator
from muster.channel.wire import Message

_NEVER = float("inf")


class Peer:
    """What the stages see of the channel: they tell it things, and read its directives.

    Belongs into one loop: wait until `fileno` is readable, or for `patience` seconds, then call
    `turn`.
    """

    def __init__(self) -> None:
        self.directives: deque[Message] = deque()
        """What the leader wants of this host, oldest first. Whoever handles one takes it out."""
        self.selector = selectors.DefaultSelector()

    def fileno(self) -> int:
        return self.selector.fileno()

    @property
    def joined(self) -> bool:
        """Whether the leader hears what is told."""
        return True

    @property
    def leads(self) -> bool:
        """Whether this host has the coordinator."""
        return False

    def offsets(self) -> dict[str, float]:
        """Seconds that each host's clock is ahead of this one's; known to the leader alone."""
        return {}

    def join(self, facts: HostFacts | None) -> None:
        """Reports for the roll call. Once.

        Args:
            facts: what this host knows of the job; None when it has failed before it could know.
        """
        raise NotImplementedError

    def tell(self, message: Message) -> None:
        """Tells the leader something; what can't be sent yet is sent after the handshake."""
        raise NotImplementedError

    def turn(self) -> None:
        """Handles what has arrived and what is due. Never waits, never raises for a bad peer."""
        for key, _ in self.selector.select(0):
            key.data()
        self.do_due(time.monotonic())

    def do_due(self, now: float) -> None:
        raise NotImplementedError

    def next_due(self) -> float:
        """When there is something to do without anything arriving, on the monotonic clock."""
        raise NotImplementedError

    def patience(self) -> float | None:
        """Seconds until `turn` must be called; None for when something arrives."""
        due = self.next_due()
        return None if due == _NEVER else max(0.0, due - time.monotonic())

    def flush(self) -> bool:
        """Whether all that was told is on its way."""
        return True

    def close(self) -> None:
        self.selector.close()


class Alone(Peer):
    """The host that has the coordinator; by itself, the only host of its job.

    Args:
        host: this host's name.
        coordinator: of the job.
    """

    def __init__(self, host: str, coordinator: Coordinator) -> None:
        super().__init__()
        self.host = host
        self.coordinator = coordinator

    @property
    def leads(self) -> bool:
        return True

    def offsets(self) -> dict[str, float]:
        return {host.name: host.offset for host in self.coordinator.roster}

    def join(self, facts: HostFacts | None) -> None:
        self.coordinator.join(self.host, facts, 0.0, time.monotonic())
        self.deliver()

    def tell(self, message: Message) -> None:
        self.coordinator.hear(self.host, message, time.monotonic())
        self.deliver()

    def do_due(self, now: float) -> None:
        self.coordinator.tick(now)
        self.deliver()

    def next_due(self) -> float:
        due = self.coordinator.next_due()
        return _NEVER if due is None else due

    def deliver(self) -> None:
        """Hands out what the coordinator wants to be sent."""
        outbox = self.coordinator.outbox
        while outbox:
            host, message = outbox.popleft()
            if host == self.host:
                self.directives.append(message)
            else:
                self.post(host, message)

    def post(self, host: str, message: Message) -> None:
        raise NotImplementedError
