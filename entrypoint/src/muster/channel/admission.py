"""A connection before its peer has shown who it is. Effects: a socket.

    member → leader   {muster, host, nonce}             plain, at most 4 KiB
    leader → member   {muster, nonce, proof}  or  {muster, refused, final}
    member → leader   enter {time}                      the first frame of the session
    leader → member   entered {}  or  refused {why}

docs/channel.md says what this protects from, and from what not.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from typing import Protocol

from muster.channel import message as msg
from muster.channel.key import proof, session_key
from muster.channel.session import ClosedError, Session
from muster.channel.wire import (
    BAD_INPUT,
    PLAIN_LIMIT,
    PROTOCOL,
    Line,
    Message,
    WireError,
    dump,
    load,
)

HANDSHAKE_S = 5.0
"""For the whole handshake, on either side."""
NONCE_BYTES = 16
_LONGEST_NAME = 255


class Gate(Protocol):
    """What a caller asks of the leader."""

    key: bytes
    selector: selectors.DefaultSelector

    def check(self, caller: Caller, host: str) -> None:
        """Calls `caller.challenge` or `caller.refuse` when it is known whether it may come in."""

    def enter(self, caller: Caller, session: Session, offset: float) -> None:
        """Takes the session over, or closes it."""

    def forget(self, caller: Caller) -> None:
        """The caller is no longer half open."""


class Caller:
    """One connection on the leader's side until it is a session, or closed."""

    def __init__(self, sock: socket.socket, address: str, gate: Gate) -> None:
        self.address = address
        self.deadline = time.monotonic() + HANDSHAKE_S
        self.host = ""
        self._sock = sock
        self._gate = gate
        self._line = Line(PLAIN_LIMIT)
        self._nonce = ""
        self._session: Session | None = None
        self._challenged = 0.0
        sock.settimeout(0)
        gate.selector.register(sock, selectors.EVENT_READ, self._on_plain)

    @property
    def open(self) -> bool:
        """Whether it still waits for an answer."""
        return self._sock.fileno() >= 0

    def challenge(self) -> None:
        """Its name may come from its address: now it has to know the key."""
        if not self.open:
            return
        nonce, key = os.urandom(NONCE_BYTES).hex(), self._gate.key
        self._gate.selector.unregister(self._sock)
        shown = proof(key, self.host, self._nonce, nonce)
        if not self._say({"muster": PROTOCOL, "nonce": nonce, "proof": shown}):
            self.close()
            return
        self._challenged = time.time()
        self._session = Session(
            self._sock,
            self._gate.selector,
            session_key(key, self.host, self._nonce, nonce),
            "to-member",
            self._on_frame,
            PLAIN_LIMIT,
        )

    def refuse(self, why: str, *, final: bool = False) -> None:
        """Tells it why it may not come in, and whether it is no use to try again."""
        if self.open:
            self._say({"muster": PROTOCOL, "refused": why, "final": final})
            self.close()

    def close(self) -> None:
        """Drops the connection. Can be called twice."""
        if self._session:
            self._session.close()
        elif self._sock.fileno() >= 0:
            with contextlib.suppress(KeyError):
                self._gate.selector.unregister(self._sock)
            self._sock.close()
        self._gate.forget(self)

    def _on_plain(self) -> None:
        try:
            self._take(self._sock.recv(PLAIN_LIMIT))
        except BlockingIOError:
            return
        except (OSError, *BAD_INPUT):
            self.close()

    def _take(self, data: bytes) -> None:
        lines = self._line.feed(data)
        if not data or len(lines) > (not self.host):
            raise WireError("it has gone, or said more than a greeting")
        if lines:
            self._greet(load(lines[0]))

    def _greet(self, hello: Message) -> None:
        if hello.get("muster") != PROTOCOL:
            self.refuse(f"the leader speaks version {PROTOCOL} of the channel", final=True)
            return
        self.host = msg.text(hello, "host", _LONGEST_NAME)
        self._nonce = msg.hexadecimal(hello, "nonce")
        self._gate.check(self, self.host)

    def _on_frame(self) -> None:
        assert self._session is not None
        try:
            messages = self._session.receive()
            offset = self._offset(messages)
        except (ClosedError, *BAD_INPUT):
            self.close()
            return
        if offset is not None:
            session, self._session = self._session, None
            self._gate.forget(self)
            self._gate.enter(self, session, offset)

    def _offset(self, messages: list[Message]) -> float | None:
        """How far the peer's clock is ahead, by its first message; None before it."""
        if not messages:
            return None
        if len(messages) > 1 or messages[0].get("type") != "enter":
            raise WireError("something else than `enter`")
        # Its clock was read half of the way there and back.
        return msg.number(messages[0], "time") - (self._challenged + time.time()) / 2

    def _say(self, message: Message) -> bool:
        """Sends a plain line; false when the socket doesn't take it at once."""
        line = dump(message) + b"\n"
        try:
            return self._sock.send(line) == len(line)
        except OSError:
            return False
