"""Names to addresses, off the loop. Effects: threads, the name server.

A dead name server holds a look-up for many seconds; the loop must hear signals meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping

_THREADS = 16

Addresses = tuple[str, ...]


class Resolver:
    """Looks names up in a few threads; the answers are given out by `collect`.

    Args:
        known: addresses that need no look-up, by name.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known
        self._questions: queue.SimpleQueue[tuple[str, Callable[[Addresses], None]]] = (
            queue.SimpleQueue()
        )
        self._answers: deque[tuple[Addresses, Callable[[Addresses], None]]] = deque()
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._threads = 0

    def fileno(self) -> int:
        """Readable when there are answers."""
        return self._read

    def ask(self, name: str, then: Callable[[Addresses], None]) -> None:
        """Calls `then` with the addresses of `name`; with none when it does not resolve.

        From `collect`, or at once where they are known.
        """
        if name in self._known:
            then((normalised(self._known[name]),))
            return
        self._questions.put((name, then))
        if self._threads < _THREADS:
            self._threads += 1
            # Daemons: a look-up that hangs must not hold the end of the process.
            threading.Thread(target=self._work, daemon=True).start()

    def collect(self) -> None:
        """Gives the answers that have come to those who asked."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 4096)
        while self._answers:
            addresses, then = self._answers.popleft()
            then(addresses)

    def _work(self) -> None:
        while True:
            name, then = self._questions.get()
            self._answers.append((look_up(name), then))
            # A pipe that is full of such bytes is readable.
            with contextlib.suppress(BlockingIOError):
                os.write(self._write, b".")


def look_up(name: str) -> Addresses:
    """All addresses of a name; none when it does not resolve."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(normalised(str(entry[4][0])) for entry in found))


def normalised(address: str) -> str:
    """One text for one address: an IPv4 one as a socket of both families has it is IPv4 again."""
    bare = address.partition("%")[0].lower()
    mapped = bare.removeprefix("::ffff:")
    return mapped if "." in mapped else bare
