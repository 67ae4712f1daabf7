"""One host's part in calling every other host: a listener for the time of the check, and calls to the others.

Effects: a port, connections, threads.

    caller   → listener   TOKEN HOST      the token is the job's first host's, new for each check
    listener → caller     TOKEN HOST      so that neither a stranger nor another program counts
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

EACH_S, ALL_S = 2.0, 5.0
"""A connection's time, in which a lost first packet is sent again; and that of all."""
MANY, SPREAD = 64, 32
"""With more hosts than MANY each calls SPREAD of them."""
_AT_ONCE = 32
_BACKLOG = 256
_LONGEST = 512
"""Bytes of a line: a token and a host's name."""


def peers_of(host: str, hosts: Sequence[str]) -> tuple[str, ...]:
    """Whom a host calls: all others, or where there are many as many steps round the circle. Pure.

    All hosts call with the same steps, so that each is also called as often.
    """
    others, place = len(hosts) - 1, hosts.index(host)
    steps: Sequence[int] = range(1, len(hosts))
    if len(hosts) > MANY:
        steps = [1 + step * others // SPREAD for step in range(SPREAD)]
    return tuple(hosts[(place + step) % len(hosts)] for step in steps)


class Listener:
    """Answers the other hosts.

    Args:
        address: this host's own, on the interface between the hosts.

    Raises:
        OSError: it can't listen there.
    """

    def __init__(self, address: str) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.create_server((address, 0), family=family, backlog=_BACKLOG)
        self._socket.settimeout(0)
        self.address, self.port = self._socket.getsockname()[:2]
        self.callers: dict[str, str] = {}
        """From which address each host has called."""
        self._ear, self._mouth = os.pipe2(os.O_CLOEXEC)
        self._thread: threading.Thread | None = None

    def serve(self, host: str, token: str) -> None:
        """Answers from now on, in a thread, those that know the token."""
        self._thread = threading.Thread(target=self._serve, args=(host, token), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answers no more."""
        os.close(self._mouth)
        if self._thread:
            self._thread.join()
        os.close(self._ear)
        self._socket.close()

    def _serve(self, host: str, token: str) -> None:
        calls: dict[socket.socket, tuple[str, bytes]] = {}
        with selectors.DefaultSelector() as selector:
            selector.register(self._ear, selectors.EVENT_READ)
            selector.register(self._socket, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fd == self._ear:
                        for call in calls:
                            call.close()
                        return
                    if key.fileobj is self._socket:
                        self._accept(selector, calls)
                    else:
                        assert isinstance(key.fileobj, socket.socket)
                        self._hear(key.fileobj, selector, calls, f"{token} {host}\n")

    def _accept(
        self,
        selector: selectors.BaseSelector,
        calls: dict[socket.socket, tuple[str, bytes]],
    ) -> None:
        try:
            call, address = self._socket.accept()
        except OSError:
            return
        call.settimeout(0)
        calls[call] = str(address[0]), b""
        selector.register(call, selectors.EVENT_READ)
        if len(calls) > _BACKLOG:
            _drop(next(iter(calls)), selector, calls)  # The oldest that has said nothing.

    def _hear(
        self,
        call: socket.socket,
        selector: selectors.BaseSelector,
        calls: dict[socket.socket, tuple[str, bytes]],
        answer: str,
    ) -> None:
        source, line = calls[call]
        try:
            heard = call.recv(_LONGEST)
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        line += heard
        if heard and not line.endswith(b"\n") and len(line) < _LONGEST:
            calls[call] = source, line
            return
        token, _, name = line.decode("utf-8", "replace").strip().partition(" ")
        if name and token == answer.partition(" ")[0]:
            self.callers[name] = source
            with contextlib.suppress(OSError):
                call.send(answer.encode())
        _drop(call, selector, calls)


def _drop(
    call: socket.socket,
    selector: selectors.BaseSelector,
    calls: dict[socket.socket, tuple[str, bytes]],
) -> None:
    selector.unregister(call)
    del calls[call]
    call.close()


@dataclass
class Calls:
    """What has come of the calls, by host."""

    reached: dict[str, float] = field(default_factory=dict)
    """Milliseconds from the call to the answer."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why there was none."""


def call_all(host: str, token: str, book: Mapping[str, tuple[str, int]]) -> Calls:
    """Calls all hosts in `book`, many at once, within ALL_S.

    Args:
        host: this host.
        token: what all know.
        book: address and port of each.
    """
    found, waiting = Calls(), deque(book)
    deadline = time.monotonic() + ALL_S

    def work() -> None:
        while waiting:
            try:
                peer = waiting.popleft()
            except IndexError:  # Another thread was faster.
                return
            left = min(EACH_S, deadline - time.monotonic())
            try:
                found.reached[peer] = _call(peer, book[peer], f"{token} {host}\n", left)
            except TimeoutError:
                found.failed[peer] = f"no answer within {EACH_S:g} s"
            except OSError as error:
                found.failed[peer] = error.strerror or str(error)

    threads = [
        threading.Thread(target=work, daemon=True) for _ in range(min(_AT_ONCE, len(book)) - 1)
    ]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    return found


def _call(peer: str, place: tuple[str, int], greeting: str, left: float) -> float:
    """Milliseconds from the call to the answer. Raises OSError, and TimeoutError."""
    if left <= 0:
        raise TimeoutError
    began = time.monotonic()
    with socket.create_connection(place, left) as call:
        call.sendall(greeting.encode())
        heard = b""
        while not heard.endswith(b"\n"):
            call.settimeout(max(0.001, began + left - time.monotonic()))
            more = call.recv(_LONGEST)
            if not more or len(heard) > _LONGEST:
                break
            heard += more
    took = (time.monotonic() - began) * 1000
    if heard.decode("utf-8", "replace") != f"{greeting.partition(' ')[0]} {peer}\n":
        raise ConnectionError("another program answers there")
    return took
