"""The loop that watches one host's ranks until those of all hosts are over.

One thread, one selector: signals, the ranks' messages, the channel, the launcher's end,
deadlines. What it may do is little: release a rank, signal the ranks, end the
launcher, tell the leader. Effects: signals processes.
"""

from __future__ import annotations

import selectors
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from muster.channel.meeting import Meeting
from muster.channel.message import pack_cause, unpack_cause
from muster.channel.wire import Message
from muster.launch import children
from muster.launch.afterwards import Afterwards
from muster.launch.agreement import Agreement
from muster.launch.alarm import Alarm
from muster.launch.lookout import Lookout, wake
from muster.launch.outcome import is_consequence
from muster.launch.ranks import Ranks
from muster.launch.remote import RemoteStart
from muster.launch.streams import LogPump
from muster.launch.telling import Telling
from muster.log import say
from muster.model import Outcome, RankEnd
from muster.signals import STOPPING

_SETTLE_S = 2.0
"""How long the real cause may come after its echo."""


@dataclass(frozen=True)
class Limits:
    """What the supervisor goes by. Grace times in seconds."""

    expected: int
    """Ranks that this host should have."""
    shared_world: bool
    """Whether ranks on other hosts belong to the same world."""
    stop_grace: float
    abort_grace: float
    frozen: float
    """How long a rank may stay stopped by SIGSTOP."""


class Supervisor:
    """Watches one launcher and its ranks. Use once."""

    def __init__(
        self,
        here: tuple[children.Launcher, Ranks, RemoteStart, Agreement, Alarm],
        meeting: Meeting,
        pump: LogPump,
        limits: Limits,
    ) -> None:
        launcher, ranks, remote, agreement, alarm = here
        self.stop_signal = 0
        self.launcher_left = False
        """Whether the launcher ended while ranks of it were alive."""
        self.launcher_ended_at = 0.0
        """When that was seen first, in seconds since the epoch; 0 before."""
        self.lookout = Lookout(ranks, limits.frozen)
        self._launcher = launcher
        self._ranks = ranks
        self._remote = remote
        self._agreement = agreement
        self._alarm = alarm
        self._meeting = meeting
        self._limits = limits
        self._kill_at: float | None = None
        self._stop_by = 0.0
        """When the time is over that a stop gives."""
        self._settled_at: float | None = None
        self._ending = False
        self._telling = Telling(meeting, ranks, limits.expected)
        self._afterwards = Afterwards((launcher, ranks, remote), pump, self._turn)
        self._selector = selectors.DefaultSelector()
        self._selector.register(meeting.inbox, selectors.EVENT_READ, self._on_signals)
        self._selector.register(meeting.peer, selectors.EVENT_READ, meeting.peer.turn)
        for each in (ranks, remote, agreement, alarm):
            each.watch(self._selector)

    def run(self, account: Callable[[], Outcome]) -> Outcome:
        """Returns when every rank of the job is over, and the launcher here.

        Args:
            account: how this host's ranks have ended so far.
        """
        while not self._over():
            self._turn(self._patience())
            self._judge()
            failed = bool(self._alarm.fatal) or any(rank.code for rank in self._ranks.all)
            self._telling.tell(account, failed=failed, stopped=bool(self.stop_signal))
        if self.stop_signal:
            self._afterwards.wait_for_stragglers(self._stop_by, self._alarm.processes)
        self._afterwards.end_output()
        outcome = account()
        self._meeting.peer.tell({"type": "over", "cause": pack_cause(outcome.cause)})
        self._meeting.take_directives()
        while self._meeting.verdict is None:
            self._turn(None)
        self._afterwards.finish(lambda: bool(self.stop_signal))
        return self._meeting.judged(outcome)

    def _turn(self, timeout: float | None) -> None:
        due = self._remote.next_due()
        remote = None if due is None else max(0.0, due - time.monotonic())
        waits = [
            wait for wait in (timeout, self._meeting.peer.patience(), remote) if wait is not None
        ]
        for key, _ in self._selector.select(min(waits, default=None)):
            key.data()
        if self._launcher.ended and not self.launcher_ended_at:
            self.launcher_ended_at = time.time()
        self._meeting.peer.turn()
        for directive in self._meeting.take_directives():
            self._heed(directive)
        self._remote.look()

    def _patience(self) -> float:
        pending = [self._settled_at if not self._ending else self._kill_at]
        pending.append(self.lookout.next_due())
        pending.append(self._telling.next_due(stopped=bool(self.stop_signal)))
        pending.append(self._alarm.next_due())
        return max(0.0, min(at for at in pending if at is not None) - time.monotonic())

    def _over(self) -> bool:
        """Whether no rank lives, none can come any more, and all is known of why one has failed."""
        if self._ranks.living or self._alarm.next_due():
            return False
        every = len(self._ranks.all) >= self._limits.expected
        return every or self._ending or self._launcher.ended

    def _judge(self) -> None:
        """What follows from the state that the last turn has left."""
        for rank in self._ranks.all:
            if rank.code == 0 and not self._ending and not self._limits.shared_world:
                # Held back, the launcher waits for it. That is right where other hosts still
                # need this launcher: torchrun keeps the store of all ranks alive.
                rank.release()
        if not self._ending:
            self._judge_failures([end for end in self._ranks.ends() if end.code])
        if self._alarm.fatal and not self._ending:
            say("the job can't go on with that GPU: ending all")
            self._end_all(signal.SIGTERM, self._limits.abort_grace)
        if self.lookout.look() and not self._ending:
            say("a rank is stopped: ending all")
            self._end_all(signal.SIGTERM, self._limits.abort_grace)
        for number, text in self.lookout.stacks():
            self._meeting.peer.tell({"type": "stacks", "rank": number, "text": text})
        if self._launcher.ended and self._ranks.living and not self._ending:
            say("the launcher ended before its ranks: ending them")
            self.launcher_left = True
            self._end_all(signal.SIGTERM, self._limits.abort_grace)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill_at = None
            for rank in self._ranks.living:
                say(f"rank {rank.rank} did not end in time: killing it")
                rank.kill()

    def _judge_failures(self, failed: Sequence[RankEnd]) -> None:
        """Ends the others when a rank has failed; at once, unless it may be an echo.

        A rank whose connection broke may end before the one that broke it, which is still
        shutting down. Ended by us then, that one would lose its own status.
        """
        now = time.monotonic()
        if failed:
            self._alarm.expect()
        if failed and self._settled_at is None:
            echo = all(is_consequence(end) for end in failed)
            self._settled_at = now + (_SETTLE_S if echo else 0.0)
        elif failed and not all(is_consequence(end) for end in failed):
            self._settled_at = now
        if self._settled_at is not None and now >= self._settled_at:
            others = ": ending the others" if self._ranks.living else ""
            say(f"rank {failed[0].rank} failed{others}")
            self._end_all(signal.SIGTERM, self._limits.abort_grace)

    def _end_all(self, number: int, grace: float) -> None:
        self._ending = self._ranks.closed = True
        self._kill_at = time.monotonic() + grace
        for rank in self._ranks.living:
            rank.signal(number)
            wake(rank)
        self._agreement.end()

    def _on_signals(self) -> None:
        for number in self._meeting.inbox.read():
            if number == signal.SIGCHLD:
                ours = self._launcher.processes | self._remote.processes | self._alarm.processes
                children.reap_orphans(ours)
            elif number not in STOPPING:
                for rank in self._ranks.living:
                    rank.signal(number, ending=False)
            elif not self.stop_signal:
                # One host that is asked is enough: all of them save together.
                self._meeting.peer.tell({"type": "stop", "signum": number})
                self._stop(number, signal.Signals(number).name)

    def _stop(self, number: int, why: str) -> None:
        if self.stop_signal:
            return
        self.stop_signal = number
        self._stop_by = time.monotonic() + self._limits.stop_grace
        if not self._ending:  # Else they have been told, and a shorter time runs.
            grace = self._limits.stop_grace
            say(f"{why}: the ranks have {grace:g} s to end")
            self._end_all(number, grace)

    def _heed(self, directive: Message) -> None:
        """Does what the leader wants."""
        if directive["type"] == "stop":
            number = int(directive["signum"])
            self._stop(number, f"{directive['host']} was asked to stop")
        elif directive["type"] == "dump":
            self.lookout.ask_for_stacks()
        elif self._remote.heed(directive) or self._agreement.heed(directive):
            return
        elif directive["type"] == "verdict" and not self._ending:
            if self._ranks.living:
                cause = unpack_cause(directive["cause"])
                say(f"{cause.headline} ({cause.host}): ending the ranks" if cause else "ending")
            self._end_all(signal.SIGTERM, self._limits.abort_grace)
