"""Another host's end: it calls the leader until it is let in, and holds the connection.

Effects: a socket, threads that look names up, lines in the log.
"""

from __future__ import annotations

import selectors
import time
from collections import deque
from dataclasses import dataclass

from muster.channel import message as msg
from muster.channel.agreement import HostFacts
from muster.channel.dialling import Call, Caller
from muster.channel.names import Addresses, Resolver
from muster.channel.peer import Peer
from muster.channel.session import ClosedError, Session
from muster.channel.verdict import lost_cause
from muster.channel.wire import BAD_INPUT, Message
from muster.errors import STATUS_OF_KIND
from muster.log import say
from muster.model import Cause

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_GROWTH = 1.5
_HOPELESS_S = 30.0
"""How long a leader may be one of another job: a left-over one ends."""
_LOOK_S = 1.0
_NEVER = float("inf")


@dataclass(frozen=True)
class Route:
    """Whom to call, and how long to try."""

    leader: str
    port: int
    patience: float
    beat: float
    silence: float


class Member(Peer):
    """A host that is not the first.

    Args:
        host: this host's name.
        key: of the job.
        resolver: for the leader's name and this host's own.
        route: as above.
    """

    def __init__(self, host: str, key: bytes, resolver: Resolver, route: Route) -> None:
        super().__init__()
        self.host = host
        self._key = key
        self._resolver = resolver
        self._route = route
        self._facts: HostFacts | None = None
        self._waiting: deque[Message] = deque()
        self._session: Session | None = None
        self._call: Call | None = None
        self._reason = self._said = ""
        self._pause = _FIRST_PAUSE_S
        self._tries = 0
        self._hopeless_since: float | None = None
        self._over = False
        """Whether the leader has let us go, or is lost: nothing more is expected."""
        now = time.monotonic()
        self._began = now
        self._next_try = _NEVER
        self._next_beat = _NEVER
        self._next_look = _NEVER
        self._own: Addresses = ()
        self.selector.register(resolver, selectors.EVENT_READ, resolver.collect)

    def join(self, facts: HostFacts | None) -> None:
        self._facts = facts
        self._resolver.ask(self.host, self._note_own)
        self._try()

    @property
    def joined(self) -> bool:
        return self._session is not None

    def tell(self, message: Message) -> None:
        if self._session:
            self._send(message)
        elif not self._over:
            self._waiting.append(message)

    def do_due(self, now: float) -> None:
        if self._call and now >= self._call.deadline:
            self._call.time_out()
        if now >= self._next_try:
            self._try()
        if self._session is None and not self._over and now >= self._began + self._route.patience:
            self._give_up(f"not reached within {self._route.patience:.0f} s: {self._reason}")
        if self._session and now >= self._next_look:
            self._next_look = now + _LOOK_S
            silent = now - self._session.heard
            if silent >= self._route.silence:
                self._lose(f"nothing was heard of it for {silent:.0f} s")
        if self._session and now >= self._next_beat:
            self._next_beat = now + self._route.beat
            self._send({"type": "beat"})

    def next_due(self) -> float:
        if self._over:
            return _NEVER
        due = [self._next_try, self._next_beat, self._next_look]
        due += [self._call.deadline] if self._call else []
        due += [] if self._session else [self._began + self._route.patience]
        return min(due)

    def flush(self) -> bool:
        return self._session is None or self._session.drained()

    def close(self) -> None:
        self._over = True
        if self._call:
            self._call.close()
        if self._session:
            self._session.close()
        super().close()

    # Calling.

    def _try(self) -> None:
        self._next_try = _NEVER
        self._resolver.ask(self._route.leader, self._dial)

    def _note_own(self, found: Addresses) -> None:
        self._own = found

    def _dial(self, found: Addresses) -> None:
        if self._over or self._call or self._session:
            return
        if not found:
            self._failed("its name does not resolve")
            return
        address = found[self._tries % len(found)]
        self._tries += 1
        self._call = Call(
            (address, self._route.port),
            Caller(self.host, self._key, self._own),
            self.selector,
            self._entered,
            self._failed,
        )
        self._call.start()

    def _entered(self, session: Session) -> None:
        self._call = None
        self._session = session
        session.trust(self._hear)
        now = time.monotonic()
        self._next_beat = now + self._route.beat
        self._next_look = now + _LOOK_S
        facts = self._facts.pack() if self._facts else None
        self._send({"type": "join", "facts": facts})
        while self._waiting:
            self._send(self._waiting.popleft())

    def _failed(self, reason: str, *, final: bool = False, hopeless: bool = False) -> None:
        """This call came to nothing."""
        self._call = None
        if self._over or self._session:
            return
        now = time.monotonic()
        self._reason = reason
        # Hosts don't start at one moment: what passes by itself is not worth a line.
        if reason != self._said and (now - self._began > _LOOK_S or final):
            self._said = reason
            say(f"the leader {self._route.leader}: {reason}")
        self._hopeless_since = (self._hopeless_since or now) if hopeless else None
        if final or (self._hopeless_since and now - self._hopeless_since > _HOPELESS_S):
            self._give_up(reason)
            return
        self._next_try = now + self._pause
        self._pause = min(_LONGEST_PAUSE_S, self._pause * _GROWTH)

    def _give_up(self, why: str) -> None:
        leader = self._route.leader
        self._conclude(
            Cause(
                headline=f"{self.host} can't join the job: its leader {leader}: {why}",
                kind="rollcall",
                status=STATUS_OF_KIND["rollcall"],
                host=self.host,
                remedy=f"The log of {leader} says more. "
                "MUSTER_ROLLCALL_S is how long hosts may take to start.",
            )
        )

    # Being there.

    def _hear(self) -> None:
        if self._session is None:
            return
        try:
            for message in self._session.receive():
                if message.get("type") == "verdict":
                    msg.unpack_cause(message.get("cause"))
                if message.get("type") == "leave":
                    self._over = True
                self.directives.append(message)
        except ClosedError as error:
            self._lose(str(error))
        except BAD_INPUT as error:
            self._lose(f"it sent {error}")

    def _send(self, message: Message) -> None:
        if self._session is None:
            return
        try:
            self._session.send(message)
        except ClosedError as error:
            self._lose(str(error))

    def _lose(self, how: str) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        session.close()
        if not self._over:
            self._conclude(lost_cause(self._route.leader, how, session.heard_at))

    def _conclude(self, cause: Cause) -> None:
        """There is no leader to ask any more: this host ends with a verdict of its own."""
        self._over = True
        self.directives.append({"type": "verdict", "cause": msg.pack_cause(cause)})
        self.directives.append({"type": "leave"})
