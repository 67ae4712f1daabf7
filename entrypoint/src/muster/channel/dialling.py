"""One call to the leader, up to a session or a reason why not. Effects: a socket."""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from muster.channel import message as msg
from muster.channel.admission import HANDSHAKE_S, NONCE_BYTES
from muster.channel.key import proof, session_key
from muster.channel.names import Addresses
from muster.channel.session import ClosedError, Session
from muster.channel.wire import BAD_INPUT, PLAIN_LIMIT, PROTOCOL, Line, Message, dump, load

_IN_PROGRESS = (0, errno.EINPROGRESS)


class Failed(Protocol):
    """Called with why a call came to nothing."""

    def __call__(self, reason: str, *, final: bool = False, hopeless: bool = False) -> None:
        """`final`: another try is no use; `hopeless`: nor are many."""


@dataclass(frozen=True)
class Caller:
    """Who calls."""

    host: str
    key: bytes
    """Of the job."""
    addresses: Addresses
    """The host's own, from one of which it should call."""


class Call:
    """Connects, and goes through the handshake of admission.py on the member's side.

    Args:
        leader: address and port.
        caller: who calls.
        selector: calls back.
        entered: called with the session when the leader has let us in.
        failed: called with the reason when it has not. One of the two is called, once.
    """

    def __init__(
        self,
        leader: tuple[str, int],
        caller: Caller,
        selector: selectors.BaseSelector,
        entered: Callable[[Session], None],
        failed: Failed,
    ) -> None:
        self.deadline = time.monotonic() + HANDSHAKE_S
        self._leader = leader
        self._caller = caller
        self._selector = selector
        self._entered = entered
        self._failed = failed
        self._nonce = os.urandom(NONCE_BYTES).hex()
        self._line = Line(PLAIN_LIMIT)
        self._connected = False
        self._session: Session | None = None
        self._sock: socket.socket | None = None

    def start(self) -> None:
        """Calls. May end at once."""
        family = socket.AF_INET6 if ":" in self._leader[0] else socket.AF_INET
        try:
            sock = self._sock = socket.socket(family)
            sock.settimeout(0)
            _call_from(sock, self._caller.addresses, self._leader[0])
            code = sock.connect_ex(self._leader)
        except OSError as error:
            self._end(f"{self._place}: {error.strerror}")
            return
        if code in _IN_PROGRESS:
            self._selector.register(sock, selectors.EVENT_WRITE, self._on_connected)
        else:
            self._end(self._unreachable(code))

    def time_out(self) -> None:
        """The deadline has passed."""
        if self._connected:
            self._end(f"{self._place} took the connection, and did not answer")
        else:
            self._end(f"{self._place} does not answer: {_ALLOW}")

    def close(self) -> None:
        """Gives the call up."""
        if self._session:
            self._session.close()
        elif self._sock and self._sock.fileno() >= 0:
            with contextlib.suppress(KeyError):
                self._selector.unregister(self._sock)
            self._sock.close()

    @property
    def _place(self) -> str:
        return f"{self._leader[0]}:{self._leader[1]}"

    def _end(self, reason: str, *, final: bool = False, hopeless: bool = False) -> None:
        self.close()
        self._failed(reason, final=final, hopeless=hopeless)

    def _unreachable(self, code: int) -> str:
        if code == errno.ECONNREFUSED:
            return f"{self._place} refuses the connection: no muster has started there yet"
        if code in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT):
            return f"{self._place} can't be reached ({os.strerror(code)}): {_ALLOW}"
        return f"{self._place}: {os.strerror(code)}"

    def _on_connected(self) -> None:
        assert self._sock
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._end(self._unreachable(code))
            return
        self._connected = True
        self._selector.modify(self._sock, selectors.EVENT_READ, self._on_answer)
        hello = {"muster": PROTOCOL, "host": self._caller.host, "nonce": self._nonce}
        try:
            self._sock.send(dump(hello) + b"\n")  # It is small, and the socket's buffer empty.
        except OSError as error:
            self._end(f"{self._place}: {error.strerror}")

    def _on_answer(self) -> None:
        assert self._sock
        try:
            self._take(self._sock.recv(PLAIN_LIMIT))
        except BlockingIOError:
            return
        except OSError as error:
            self._end(f"{self._place}: {error.strerror}")
        except ClosedError as error:
            self._end(f"{self._place}: {error}")
        except BAD_INPUT:
            self._end(f"{self._place} is no muster", hopeless=True)

    def _take(self, data: bytes) -> None:
        lines = self._line.feed(data)
        if not data:
            raise ClosedError("it ended the handshake")
        if lines:
            self._enter(load(lines[0]))

    def _enter(self, answer: Message) -> None:
        if answer.get("muster") != PROTOCOL or "refused" in answer:
            why = msg.text(answer, "refused", 400)
            self._end(f"it refuses this host: {why}", final=answer.get("final") is True)
            return
        nonce = msg.hexadecimal(answer, "nonce")
        expected = proof(self._caller.key, self._caller.host, self._nonce, nonce)
        if not hmac.compare_digest(expected, msg.hexadecimal(answer, "proof")):
            why = "another job's, or MUSTER_JOB_SECRET is not the same on both hosts"
            self._end(f"{self._place} is the leader of another job: {why}", hopeless=True)
            return
        assert self._sock
        self._selector.unregister(self._sock)
        key = session_key(self._caller.key, self._caller.host, self._nonce, nonce)
        self._session = Session(self._sock, self._selector, key, "to-leader", self._on_frame)
        try:
            self._session.send({"type": "enter", "time": time.time()})
        except ClosedError as error:
            self._end(f"{self._place}: {error}")

    def _on_frame(self) -> None:
        assert self._session is not None
        try:
            messages = self._session.receive()
        except (ClosedError, *BAD_INPUT) as error:
            self._end(f"{self._place}: {error}")
            return
        if messages:
            session, self._session = self._session, None
            self._entered(session)


_ALLOW = "the job's security group must allow all TCP between its own hosts"


def _call_from(sock: socket.socket, own: Addresses, leader: str) -> None:
    """Calls from this host's own address, to which its name resolves for the leader too."""
    for address in own:
        # A loopback address in /etc/hosts leads nowhere else.
        if address.startswith("127.") and not leader.startswith("127."):
            continue
        try:
            sock.bind((address, 0))
        except OSError:
            continue
        return
