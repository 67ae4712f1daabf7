"""Where the ranks of this host ask at which checkpoint all ranks of the job go on.

    training.checkpoint ══ unix socket ══► Agreement ──► channel ──► leader: council.py
                        ◄══════════════════          ◄──────────────

    rank    → {tally}                        what it has whole, then it waits
    harness → {tally} or {why}, and the end  what all have; or why that can't be known

One connection is one call of resume(). What this host tells is the sum of the ranks that wait, with
a number that grows: an answer is for those that were in what it answers. Effects: a unix socket,
lines in the log.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from muster.channel.wire import Message
from muster.log import say
from muster.tally import Tally, merge

_REQUEST_LIMIT = 64 * 1024
_ENDING = "the job is ending while its ranks agree on a checkpoint"


@dataclass(eq=False)
class _Waiter:
    """One rank that has called resume()."""

    conn: socket.socket
    buffer: bytearray = field(default_factory=bytearray)
    tally: Tally | None = None
    """What it has; None until it has said so."""
    serial: int = 0
    """The first number under which this host has told of it."""


def address(folder: str) -> str:
    """Where the socket is in the harness's private folder."""
    return os.path.join(folder, "agree.sock")


class Agreement:
    """This host's part in agreeing on a checkpoint.

    Args:
        tell: tells the leader something.
        folder: a private folder for the socket.
    """

    def __init__(self, tell: Callable[[Message], None], folder: str) -> None:
        self._tell = tell
        self._waiters: list[_Waiter] = []
        self._serial = 0
        self._ending = False
        self._selector: selectors.BaseSelector | None = None
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address(folder))
        self._listener.listen(1024)
        self._listener.settimeout(0)

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Lets `selector` call back with what arrives."""
        self._selector = selector
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def heed(self, directive: Message) -> bool:
        """Does what a directive says; False when it is none of this."""
        if directive["type"] == "unagreed":
            say(str(directive["text"]))
        elif directive["type"] == "agreed":
            answer = {name: directive[name] for name in ("tally", "why") if directive.get(name)}
            heard = int(directive["serial"])
            for waiter in list(self._waiters):
                if 0 < waiter.serial <= heard:
                    self._answer(waiter, answer)
            if heard < self._serial:
                # What was told meanwhile spoke of ranks that have their answer now.
                self._tell_sum()
        else:
            return False
        return True

    def end(self) -> None:
        """The job is ending: nobody waits any more."""
        self._ending = True
        for waiter in list(self._waiters):
            self._answer(waiter, {"why": _ENDING, "ending": True})

    def close(self) -> None:
        """Lets go of everything."""
        self.end()
        self._listener.close()

    def _accept(self) -> None:
        try:
            conn, _ = self._listener.accept()
        except OSError:
            return
        conn.settimeout(0)
        waiter = _Waiter(conn)
        self._waiters.append(waiter)
        assert self._selector is not None
        self._selector.register(conn, selectors.EVENT_READ, lambda: self._serve(waiter))

    def _serve(self, waiter: _Waiter) -> None:
        """A rank's request, or its end."""
        try:
            data = waiter.conn.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            # It was killed or has given up: the others must not be told that it waits.
            self._drop(waiter)
            if waiter.tally:
                self._tell_sum()
            return
        waiter.buffer += data
        if waiter.tally is None and (b"\n" in data or len(waiter.buffer) > _REQUEST_LIMIT):
            self._ask(waiter)

    def _ask(self, waiter: _Waiter) -> None:
        try:
            tally = Tally.unpack(json.loads(waiter.buffer)["tally"])
            (_rank,) = tally.ranks
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self._answer(waiter, {"why": f"the harness does not understand the rank: {error}"})
            return
        if self._ending:
            self._answer(waiter, {"why": _ENDING, "ending": True})
            return
        self._compare(tally)
        waiter.tally, waiter.serial = tally, self._serial + 1
        self._tell_sum()

    def _compare(self, tally: Tally) -> None:
        """Sends those away that can't go together with who has come now."""
        for other in list(self._waiters):
            if other.tally and other.tally.world != tally.world:
                worlds = f"{other.tally.world} and {tally.world}"
                self._answer(other, {"why": f"the ranks say different numbers of ranks: {worlds}"})
            elif other.tally and other.tally.ranks == tally.ranks:
                # Started again, while what it was before still seems to wait.
                self._answer(other, {"why": f"rank {tally.ranks[0]} has called resume() once more"})

    def _tell_sum(self) -> None:
        """Tells the leader of all ranks that wait here."""
        self._serial += 1
        tallies = [waiter.tally for waiter in self._waiters if waiter.tally]
        whole = merge(tallies).pack() if tallies else None
        self._tell({"type": "agree", "serial": self._serial, "tally": whole})

    def _answer(self, waiter: _Waiter, answer: Message) -> None:
        """The answer is small: the socket takes it at once, or the rank is gone."""
        with contextlib.suppress(OSError):
            waiter.conn.sendall(json.dumps(answer).encode() + b"\n")
        self._drop(waiter)

    def _drop(self, waiter: _Waiter) -> None:
        assert self._selector is not None
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(waiter.conn)
        waiter.conn.close()
        if waiter in self._waiters:
            self._waiters.remove(waiter)
