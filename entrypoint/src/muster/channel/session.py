"""One connection of the channel after its handshake: frames in, frames out. Effects: a socket.

Never waits: what can't be sent at once is kept until the socket takes it.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable

from muster.channel.wire import FRAME_LIMIT, Direction, Line, Message, Signer

_READ = 64 * 1024
_GONE = "its connection was closed"
"""However the kernel tells it: all hosts that lose the same one are to write the same."""
_BACKLOG = 4 * FRAME_LIMIT
"""Bytes that wait for a peer which takes nothing; with more it counts as lost."""


class ClosedError(Exception):
    """The other side has closed the connection, or broken it."""


class Session:
    """Frames to and from one peer.

    Args:
        sock: a connected socket; it becomes this object's, and non-blocking.
        selector: calls back when there is something to read.
        key: the session's key.
        outward: the direction of what is sent here.
        on_event: called when something has arrived; it should call `receive`.
        limit: bytes of the longest frame that is taken in.
    """

    def __init__(
        self,
        sock: socket.socket,
        selector: selectors.BaseSelector,
        key: bytes,
        outward: Direction,
        on_event: Callable[[], None],
        limit: int = FRAME_LIMIT,
    ) -> None:
        inward: Direction = "to-member" if outward == "to-leader" else "to-leader"
        self.heard = time.monotonic()
        """When the last frame came."""
        self.heard_at = time.time()
        """The same on the clock that people read."""
        self._sock = sock
        self._selector = selector
        self._out = Signer(key, outward)
        self._in = Signer(key, inward)
        self._line = Line(limit)
        self._backlog = bytearray()
        self._on_event = on_event
        sock.settimeout(0)
        selector.register(sock, selectors.EVENT_READ, self._event)

    def send(self, message: Message) -> None:
        """Sends a message, now or as soon as the socket takes it.

        Raises:
            ClosedError: the peer is gone, or has taken nothing for long.
        """
        self._backlog += self._out.pack(message)
        if len(self._backlog) > _BACKLOG:
            raise ClosedError("it takes nothing any more")
        self._flush()

    def trust(self, on_event: Callable[[], None]) -> None:
        """The peer has shown who it is: from now on its frames may be long, and are another's."""
        self._line.limit = FRAME_LIMIT
        self._on_event = on_event

    def receive(self) -> list[Message]:
        """The messages that are complete after one read, heartbeats left out.

        Raises:
            ClosedError: the peer is gone.
            WireError: it has sent what is no frame of this session.
        """
        messages = [self._in.unpack(line) for line in self._line.feed(self._read())]
        if messages:
            self.heard, self.heard_at = time.monotonic(), time.time()
        return [message for message in messages if message.get("type") != "beat"]

    def drained(self) -> bool:
        """Whether all that was sent has been taken by the socket."""
        return not self._backlog

    def close(self) -> None:
        """Closes the connection. Can be called twice."""
        if self._sock.fileno() >= 0:
            self._selector.unregister(self._sock)
            self._sock.close()

    def _read(self) -> bytes:
        try:
            data = self._sock.recv(_READ)
        except BlockingIOError:
            return b""
        except OSError:
            raise ClosedError(_GONE) from None
        if not data:
            raise ClosedError(_GONE)
        return data

    def _event(self) -> None:
        if self._sock.fileno() < 0:
            return  # Closed by what came before it in the same turn.
        if self._backlog:
            try:
                self._flush()
            except ClosedError:
                self._backlog.clear()  # The read that follows says so as well.
        self._on_event()

    def _flush(self) -> None:
        try:
            while self._backlog:
                sent = self._sock.send(self._backlog)
                del self._backlog[:sent]
        except BlockingIOError:
            pass
        except OSError:
            raise ClosedError(_GONE) from None
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._backlog else 0)
        if self._selector.get_key(self._sock).events != wanted:
            self._selector.modify(self._sock, wanted, self._event)
