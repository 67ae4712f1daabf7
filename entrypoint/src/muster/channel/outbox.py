"""What the leader has yet to send, in order. Pure: whoever has the connections takes it from here."""

from __future__ import annotations

from collections import deque

from muster.channel.roster import Roster
from muster.channel.wire import Message


class Outbox(deque[tuple[str, Message]]):
    """Messages, each with the host that gets it. For hosts that are not here there are none."""

    def __init__(self, roster: Roster) -> None:
        super().__init__()
        self._roster = roster

    def send(self, name: str, message: Message) -> None:
        """To one host."""
        host = self._roster[name]
        if host.joined and not host.lost:
            self.append((name, message))

    def send_all(self, message: Message, but: str = "") -> None:
        """To all hosts, or all but one."""
        for host in self._roster:
            if host.name != but:
                self.send(host.name, message)
