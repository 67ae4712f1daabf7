"""The first host's end: the listener, and a session to each of the other hosts.

Effects: sockets, threads that look names up, lines in the log.
"""

from __future__ import annotations

import functools
import selectors
import socket
import time
from dataclasses import dataclass

from muster.channel.admission import Caller
from muster.channel.agreement import HostFacts
from muster.channel.coordinator import Coordinator
from muster.channel.names import Addresses, Resolver, normalised
from muster.channel.peer import Alone
from muster.channel.phases import Phase
from muster.channel.rollcall import UNKNOWN, RollCall
from muster.channel.roster import SILENT
from muster.channel.session import ClosedError, Session
from muster.channel.wire import BAD_INPUT, Message
from muster.errors import RollCallError
from muster.log import say

_BACKLOG = 1024
_HALF_OPEN = 64
"""Connections in their handshake beyond one a host. With more, the oldest is dropped."""
_AT_ONCE = 32
"""Calls that are taken in one turn: a flood of them must not keep the loop from all else."""
_FRESH_S = 10.0
"""How long a refused call is the reason why a host is missing."""
_LOOK_S = 1.0
"""How often silent hosts and half-open connections are looked for."""
_SWEEP_S = 2.0
"""How often the names of missing hosts are looked up."""


@dataclass(frozen=True)
class Rules:
    """Who is let in, and how long a silence may last."""

    by_name: bool
    """Whether a host must call from an address of its name; without, the key alone decides."""
    beat: float
    silence: float


class Leader(Alone):
    """The coordinator's host, with ears.

    Args:
        host: this host's name.
        coordinator: of the job.
        listener: where the other hosts call; becomes this object's.
        key: of the job.
        resolver: for the hosts' names.
        rules: as above.
    """

    def __init__(
        self,
        host: str,
        coordinator: Coordinator,
        listener: socket.socket,
        key: bytes,
        resolver: Resolver,
        rules: Rules,
    ) -> None:
        super().__init__(host, coordinator)
        self.key = key
        now = time.monotonic()
        self._known = {each.name for each in coordinator.roster}
        self._listener = listener
        self._resolver = resolver
        self._rules = rules
        self._callers: dict[Caller, None] = {}
        self._sessions: dict[str, Session] = {}
        self._addresses: dict[str, str] = {}
        self._refused: dict[str, float] = {}
        self._rollcall: RollCall | None = RollCall(len(coordinator.roster), now)
        self._next_beat = now + rules.beat
        self._next_look = now + _LOOK_S
        self._next_remark = 0.0
        self._next_sweep = now
        listener.settimeout(0)
        self.selector.register(listener, selectors.EVENT_READ, self._accept)
        self.selector.register(resolver, selectors.EVENT_READ, resolver.collect)

    # The loop.

    def do_due(self, now: float) -> None:
        if now >= self._next_look:
            self._next_look = now + _LOOK_S
            self._drop_the_silent(now)
        if now >= self._next_beat:
            self._next_beat = now + self._rules.beat
            for host in list(self._sessions):
                self.post(host, {"type": "beat"})
        if self._rollcall and now >= self._next_sweep:
            self._next_sweep = now + _SWEEP_S
            for name in self.coordinator.roster.missing:
                self._resolver.sweep(name, functools.partial(self._note, name))
        self._say_who_is_missing(now)
        super().do_due(now)

    def next_due(self) -> float:
        due = [super().next_due(), self._next_beat, self._next_look]
        if self._rollcall:
            due += [self._next_sweep, self._rollcall.next_due()]
        return min(due)

    def deliver(self) -> None:
        super().deliver()
        if self._rollcall and self.coordinator.phase is not Phase.GATHER:
            self._say_who_is_missing(time.monotonic())

    def post(self, host: str, message: Message) -> None:
        session = self._sessions.get(host)
        try:
            if session:
                session.send(message)
        except ClosedError as error:
            self._lose(host, str(error))

    def flush(self) -> bool:
        return all(session.drained() for session in self._sessions.values())

    def close(self) -> None:
        for caller in list(self._callers):
            caller.close()
        for session in self._sessions.values():
            session.close()
        self._listener.close()
        super().close()

    # Who calls: admission.Gate.

    def check(self, caller: Caller, host: str) -> None:
        missing = self.coordinator.roster.missing
        if host not in self._known or host == self.host:
            caller.refuse(f"the job has no other host {host}"[:200])
            self._remark(f"refused a host {host!r:.80} at {caller.address}: not of this job")
        elif host not in missing:
            self._refuse_second(caller, host)
        elif not self._rules.by_name:
            caller.challenge()
        else:
            self._resolver.ask(host, lambda found: self._compare(caller, host, found))

    def enter(self, caller: Caller, session: Session, offset: float) -> None:
        host = caller.host
        if host in self._sessions:
            session.close()
            self._remark(self._second(caller, host))
            return
        self._sessions[host] = session
        self._addresses[host] = caller.address
        session.trust(lambda: self._hear(host, offset))
        self.post(host, {"type": "entered"})

    def forget(self, caller: Caller) -> None:
        self._callers.pop(caller, None)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._remark(f"a call could not be taken: {error.strerror}")
                return
            if len(self._callers) >= len(self.coordinator.roster) + _HALF_OPEN:
                # A host of ours greets at once: the oldest that has not is none.
                silent = (caller for caller in self._callers if not caller.host)
                next(silent, next(iter(self._callers))).close()
            self._callers[Caller(sock, normalised(address[0]), self)] = None

    def _compare(self, caller: Caller, host: str, found: Addresses) -> None:
        if caller.address in found:
            caller.challenge()
            return
        theirs = ", ".join(found[:4]) or "nothing"
        why = f"called from {caller.address}, but its name resolves to {theirs}"
        self.coordinator.reasons[host] = why
        self._refused[host] = time.monotonic()
        caller.refuse(f"{host} {why} (MUSTER_ADMIT=secret admits any address)")

    def _refuse_second(self, caller: Caller, host: str) -> None:
        text = self._second(caller, host)
        self._remark(text)
        caller.refuse(text)

    def _second(self, caller: Caller, host: str) -> str:
        first = self._addresses.get(host, "?")
        return f"{host} is here already, from {first}; refused a second one from {caller.address}"

    # Who is here.

    def _hear(self, host: str, offset: float) -> None:
        session = self._sessions.get(host)
        if session is None:
            return
        now = time.monotonic()
        try:
            for message in session.receive():
                if message.get("type") == "join":
                    facts = message.get("facts")
                    known = None if facts is None else HostFacts.unpack(facts)
                    self._compare_addresses(host, known)
                    self.coordinator.join(host, known, offset, now)
                else:
                    self.coordinator.hear(host, message, now)
        except ClosedError as error:
            self._lose(host, str(error))
        except BAD_INPUT as error:
            self._lose(host, f"it sent {error}")
        self.deliver()

    def _compare_addresses(self, host: str, facts: HostFacts | None) -> None:
        """Two networks are no error: the ranks may have one of their own. But it explains much."""
        seen = self._addresses[host]
        if facts and facts.address not in ("", seen) and not seen.startswith("127."):
            say(f"{host} calls from {seen}; its {facts.interface} has {facts.address}")

    def _lose(self, host: str, how: str) -> None:
        session = self._sessions.pop(host, None)
        if session is None:
            return
        session.close()
        if self.coordinator.phase is Phase.LEAVE:
            return
        if host in self.coordinator.roster.missing:
            # It has not said a word yet, and may come again.
            self.coordinator.reasons[host] = how
            return
        self.coordinator.lose(host, how, time.monotonic(), session.heard_at)

    def _drop_the_silent(self, now: float) -> None:
        for caller in [caller for caller in self._callers if caller.deadline <= now]:
            caller.close()
        for host, session in list(self._sessions.items()):
            silent = now - session.heard
            if silent >= self._rules.silence:
                self._lose(host, f"nothing was heard of it for {silent:.0f} s")

    def _note(self, name: str, found: Addresses) -> None:
        fresh = time.monotonic() - self._refused.get(name, -_FRESH_S) < _FRESH_S
        if not fresh:
            self.coordinator.reasons[name] = SILENT if found else UNKNOWN

    def _say_who_is_missing(self, now: float) -> None:
        if self.coordinator.verdict is not None:
            self._rollcall = None  # Who comes now is told so, and nobody is waited for.
        if self._rollcall is None:
            return
        missing = self.coordinator.roster.missing
        if line := self._rollcall.line(missing, self.coordinator.reasons, now):
            say(line)
        if not missing:
            self._rollcall = None
            for remark in self.coordinator.remarks:
                say(remark)

    def _remark(self, text: str) -> None:
        """A line, but not one for each of a thousand calls."""
        now = time.monotonic()
        if now >= self._next_remark:
            self._next_remark = now + _LOOK_S
            say(text)


def listen(port: int, address: str) -> socket.socket:
    """A listener for the other hosts.

    Args:
        port: MUSTER_PORT.
        address: this host's own, where it is known; else all of its addresses.

    Raises:
        RollCallError: the port can't be had.
    """
    both = not address and socket.has_dualstack_ipv6()
    try:
        return socket.create_server(
            (address, port),
            family=socket.AF_INET6 if both or ":" in address else socket.AF_INET,
            backlog=_BACKLOG,
            dualstack_ipv6=both,
        )
    except OSError as error:
        what = f"port {port}, on which the hosts of the job meet, can't be used: {error.strerror}"
        remedy = "End what holds it, or set MUSTER_PORT to another one for all hosts."
        raise RollCallError(what, remedy) from error
