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
_SWEEPERS = 12
"""Of these, those that may be busy with hosts that nobody has seen: the rest is for who calls."""
_WAITERS = 64
"""Questions for one name that wait for the same answer."""
_URGENT, _AT_LEISURE = 0, 1

Addresses = tuple[str, ...]
Then = Callable[[Addresses], None]


class Resolver:
    """Looks names up in a few threads; the answers are given out by `collect`.

    Args:
        known: addresses that need no look-up, by name; or another name to look up instead.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known
        self._questions: queue.PriorityQueue[tuple[int, int, str]] = queue.PriorityQueue()
        self._waiting: dict[str, list[Then]] = {}
        self._sweeping: set[str] = set()
        self._answers: deque[tuple[str, Addresses]] = deque()
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._threads = self._asked = 0

    def fileno(self) -> int:
        """Readable when there are answers."""
        return self._read

    def ask(self, name: str, then: Then) -> None:
        """Calls `then` with the addresses of `name`; with none when it does not resolve.

        From `collect`, or at once where they are known.
        """
        known = self._known.get(name, "")
        if is_address(known):
            then((normalised(known),))
        else:
            self._put(name, then, _URGENT)

    def sweep(self, name: str, then: Then) -> None:
        """The same for a name that nobody waits for; not at all while others keep it busy."""
        if is_address(self._known.get(name, "")):
            self.ask(name, then)
        elif name not in self._waiting and len(self._sweeping) < _SWEEPERS:
            self._sweeping.add(name)
            self._put(name, then, _AT_LEISURE)

    def collect(self) -> None:
        """Gives the answers that have come to those who asked."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 4096)
        while self._answers:
            name, addresses = self._answers.popleft()
            self._sweeping.discard(name)
            for then in self._waiting.pop(name, ()):
                then(addresses)

    def _put(self, name: str, then: Then, priority: int) -> None:
        waiting = self._waiting.setdefault(name, [])
        if len(waiting) >= _WAITERS:
            del waiting[0]  # It has had its time.
        waiting.append(then)
        if len(waiting) > 1:
            return
        self._asked += 1
        self._questions.put((priority, self._asked, name))
        if self._threads < _THREADS:
            self._threads += 1
            # Daemons: a look-up that hangs must not hold the end of the process.
            threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            _, _, name = self._questions.get()
            self._answers.append((name, look_up(self._known.get(name, name))))
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


def is_address(text: str) -> bool:
    """Whether it is an address of either family, and no name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, ValueError):
            socket.inet_pton(family, text.partition("%")[0])
            return True
    return False
