"""The channel as the stages use it: roll call, work, barrier, verdict, leaving.

Effects: those of the peer; takes signals; a thread for work.
"""

from __future__ import annotations

import dataclasses
import os
import selectors
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from muster.channel import message as msg
from muster.channel.agreement import HostFacts
from muster.channel.peer import Peer
from muster.channel.wire import Message
from muster.errors import StopRequested
from muster.log import say
from muster.model import Cause, Outcome
from muster.signals import STOPPING, Inbox

T = TypeVar("T")

_UNHEARD_S = 20.0
"""How long a host that has failed before it was let in tries to say so."""
_STOPPED_S = 2.0
"""The same for one that was stopped: it has not the time, and the others are asked as well."""
_FLUSH_S = 1.0


class JobEnded(BaseException):
    """Another host's failure has ended the job.

    A BaseException, so that no handler of ordinary errors on the way can swallow it.
    """

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.headline)
        self.cause = cause


@dataclass(frozen=True)
class Welcome:
    """What the hosts have agreed on."""

    master_port: int
    """Where the ranks meet, on the world's first host."""
    nprocs: tuple[int, ...]
    """Ranks of each host of the world, in its order."""


class Meeting:
    """The hosts of a job, for one of them.

    Args:
        peer: this host's end of the channel.
        inbox: this process's signals. With several hosts they are notes from now on.
        several: whether there are others.
        patience: seconds that hosts may take to end once they are to, whatever their settings say.
    """

    def __init__(self, peer: Peer, inbox: Inbox, *, several: bool, patience: float) -> None:
        self.peer = peer
        self.inbox = inbox
        self.verdict: Message | None = None
        self._patience = patience
        self.several = several
        self._joined = self._let_go = False
        if several:
            inbox.open()

    def gather(self, facts: HostFacts) -> Welcome:
        """Reports this host, and waits for all others.

        Raises:
            JobEnded: a host is missing, has failed, or describes another job.
            StopRequested: a host was asked to stop.
        """
        self._joined = True
        self.peer.join(facts)
        welcome = self._wait_for("welcome")
        return Welcome(int(welcome["master_port"]), tuple(int(n) for n in welcome["nprocs"]))

    def during(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises; the channel goes on meanwhile.

        Raises:
            JobEnded, StopRequested: as `gather`; the work is left to itself.
        """
        if not self.several:
            return work()  # Signals are exceptions here, and nobody waits for a heartbeat.
        result: list[T] = []
        errors: list[BaseException] = []
        done, finished = os.pipe2(os.O_CLOEXEC)

        def run() -> None:
            try:
                result.append(work())
            except BaseException as error:  # noqa: BLE001  (raised again by who asked for it)
                errors.append(error)
            os.close(finished)

        threading.Thread(target=run, daemon=True).start()
        try:
            self._loop(lambda: bool(result or errors), done)
        finally:
            os.close(done)
        if errors:
            raise errors[0]
        return result[0]

    def consult(self, topic: str, data: Any, judge: Callable[[dict[str, Any]], Any]) -> Any:
        """Tells this host's `data`, and returns what the leader answers to that of all hosts.

        Args:
            topic: what it is about; each is consulted on once.
            data: at most 64 KiB as JSON.
            judge: makes the answer, as JSON, of what each host has told. It runs on the leader alone.

        Raises:
            JobEnded, StopRequested: as `gather`.
        """
        self.peer.tell({"type": "tell", "topic": topic, "data": data})
        if self.peer.leads:
            told = self._wait_for("told")
            self.peer.tell({"type": "answer", "topic": topic, "answer": judge(told["data"])})
        return self._wait_for("answered")["answer"]

    def offsets(self) -> dict[str, float]:
        """Seconds that each host's clock is ahead of the leader's, as it joined; on other hosts empty."""
        return self.peer.offsets()

    def barrier(self, launcher: str) -> None:
        """This host is ready for the ranks: waits for all others.

        Raises:
            JobEnded, StopRequested: as `gather`.
        """
        self.peer.tell({"type": "ready", "launcher": launcher})
        self._wait_for("go")

    def conclude(self, outcome: Outcome) -> Outcome:
        """The job's outcome, after this host's own before its ranks began."""
        if not self._joined:
            # It failed before it could say what it knows of the job.
            self._joined = True
            self.peer.join(None)
        if self.verdict is None and not self._let_go:
            if outcome.stop_signal:
                self.peer.tell({"type": "stop", "signum": outcome.stop_signal})
            self.peer.tell({"type": "over", "cause": msg.pack_cause(outcome.cause)})
            patience = self._patience
            if not self.peer.joined:
                patience = _STOPPED_S if outcome.stop_signal else _UNHEARD_S
            self._listen(patience, lambda: self.verdict is not None)
        return self.judged(outcome)

    def judged(self, outcome: Outcome) -> Outcome:
        """This host's outcome with the job's cause and status."""
        if self.verdict is None:
            return outcome
        cause = msg.unpack_cause(self.verdict["cause"])
        status = cause.status if cause else 0
        return dataclasses.replace(outcome, status=status, cause=cause)

    def leave(self) -> None:
        """This host has reported: leaves with all others. A signal ends the wait."""
        if self.verdict is not None:
            self.peer.tell({"type": "reported"})
            self._listen(self._patience, lambda: self._let_go)
        deadline = time.monotonic() + _FLUSH_S
        while not self.peer.flush() and time.monotonic() < deadline:
            self._turn(time.monotonic() + 0.1)
        self.peer.close()
        self.inbox.close()

    def take_directives(self) -> list[Message]:
        """The directives that have come; the verdict and the leave are noted here."""
        taken = []
        while directive := self._take_one():
            taken.append(directive)
        return taken

    def _take_one(self) -> Message | None:
        if not self.peer.directives:
            return None
        directive = self.peer.directives.popleft()
        if directive["type"] == "verdict":
            self.verdict = self.verdict or directive
        elif directive["type"] == "leave":
            self._let_go = True
        return directive

    def _wait_for(self, kind: str) -> Message:
        found: list[Message] = []

        def come() -> bool:
            return bool(found)

        self._loop(come, None, lambda d: found.append(d) if d["type"] == kind else None)
        return found[0]

    def _loop(
        self,
        done: Callable[[], bool],
        fd: int | None,
        heard: Callable[[Message], object] = lambda _: None,
    ) -> None:
        while True:
            # What comes after the awaited one is for whoever comes next.
            while not done() and (directive := self._take_one()):
                heard(directive)
                if directive["type"] == "stop":
                    say(f"{directive['host']} was asked to stop: so is this host")
                    raise StopRequested(int(directive["signum"]))
                if directive["type"] == "verdict":
                    cause = msg.unpack_cause(directive["cause"])
                    assert cause is not None, "a job ends well only after its ranks have"
                    raise JobEnded(cause)
            if done():
                return
            if numbers := self._turn(None, fd):
                raise StopRequested(numbers[0])

    def _listen(self, patience: float, done: Callable[[], bool]) -> None:
        """Takes directives until `done`, at most so many seconds. A stop is told to the others."""
        deadline = time.monotonic() + patience
        self.take_directives()
        while not done() and time.monotonic() < deadline:
            numbers = self._turn(deadline)
            if numbers and (self.verdict is not None or not self.peer.joined):
                return
            if numbers:
                self.peer.tell({"type": "stop", "signum": numbers[0]})
            self.take_directives()

    def _turn(self, deadline: float | None, fd: int | None = None) -> list[int]:
        """Waits for something, and lets the peer handle it. Returns the stopping signals."""
        now = time.monotonic()
        waits = [self.peer.patience(), None if deadline is None else max(0.0, deadline - now)]
        if self.peer.directives:
            waits.append(0.0)
        with selectors.DefaultSelector() as selector:
            for each in (self.peer, self.inbox, fd):
                if each is not None:
                    selector.register(each, selectors.EVENT_READ)
            selector.select(min((wait for wait in waits if wait is not None), default=None))
        self.peer.turn()
        return [number for number in self.inbox.read() if number in STOPPING]
