from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from muster.channel.coordinator import Coordinator
from muster.channel.meeting import JobEnded, Meeting
from muster.channel.message import pack_cause
from muster.channel.peer import Alone, Peer
from muster.channel.wire import Message
from muster.errors import CodeError, StopRequested
from muster.model import Outcome
from muster.signals import Inbox

from .conftest import LIMITS, facts, failure

BAD = failure("bad label 7", "algo-2", time=100.0)


class Line(Peer):
    """A peer that a test speaks through."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Message] = []
        self.later: list[tuple[float, Message]] = []
        self.turns = 0

    def join(self, facts: object) -> None:
        self.told.append({"type": "join", "facts": facts})

    def tell(self, message: Message) -> None:
        self.told.append(message)

    def do_due(self, now: float) -> None:
        self.turns += 1
        for at, message in list(self.later):
            if now >= at:
                self.later.remove((at, message))
                self.directives.append(message)

    def next_due(self) -> float:
        return min([at for at, _ in self.later], default=float("inf"))

    def say(self, kind: str, after: float = 0.05, **fields: object) -> None:
        self.later.append((time.monotonic() + after, {"type": kind, **fields}))


@pytest.fixture
def line() -> Iterator[Line]:
    """Return the end of a channel that has another host on it."""
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    peer = Line()
    yield peer
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD):
        signal.signal(number, handlers[number])


@pytest.fixture
def meeting(line: Line) -> Meeting:
    """Return a meeting of two hosts, of which the line has the other."""
    return Meeting(line, Inbox(), several=True, patience=20)


def interrupt(number: int = signal.SIGTERM) -> None:
    """Send this process a signal in a moment."""
    threading.Timer(0.1, os.kill, (os.getpid(), number)).start()


def test_the_roll_call_gives_what_was_agreed(line, meeting):
    """The facts are told, and the welcome is what comes back."""
    line.say("welcome", master_port=1234, nprocs=[8, 4])
    welcome = meeting.gather(facts("algo-1", "algo-2"))
    assert (welcome.master_port, welcome.nprocs) == (1234, (8, 4))
    assert line.told[0]["facts"].hosts == ("algo-1", "algo-2")


def test_a_consultation_gives_the_leaders_answer(line, meeting):
    """A member tells what it has, never judges, and gets the answer."""
    line.say("answered", topic="checks", answer=[1])
    assert meeting.consult("checks", {"a": 1}, judge=lambda _: pytest.fail("judged")) == [1]
    assert line.told == [{"type": "tell", "topic": "checks", "data": {"a": 1}}]


def test_clocks_are_known_to_the_leader(meeting):
    """A host that leads knows by how much each clock is ahead; a member knows nothing of it."""
    assert meeting.offsets() == {}
    coordinator = Coordinator(["algo-1", "algo-2"], LIMITS, 0.0)
    coordinator.join("algo-2", facts("algo-1", "algo-2"), 3.5, 0.0)
    leading = Meeting(Alone("algo-1", coordinator), Inbox(), several=False, patience=20)
    assert leading.offsets() == {"algo-1": 0.0, "algo-2": 3.5}


WAITS: dict[str, Callable[[Meeting], object]] = {
    "roll-call": lambda meeting: meeting.gather(facts("algo-1", "algo-2")),
    "barrier": lambda meeting: meeting.barrier("torchrun"),
    "consult": lambda meeting: meeting.consult("checks", [], lambda _: None),
    "work": lambda meeting: meeting.during(lambda: time.sleep(30)),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_failure_elsewhere_ends_every_wait(line, meeting, wait):
    """Whatever this host is at, another host's failure ends it at once."""
    line.say("verdict", cause=pack_cause(BAD))
    began = time.monotonic()
    with pytest.raises(JobEnded) as ended:
        WAITS[wait](meeting)
    assert ended.value.cause == BAD
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("wait", WAITS)
def test_a_signal_ends_every_wait(meeting, wait):
    """So does a signal to this host."""
    interrupt()
    began = time.monotonic()
    with pytest.raises(StopRequested) as stopped:
        WAITS[wait](meeting)
    assert stopped.value.signum == signal.SIGTERM
    assert time.monotonic() - began < 2


def test_a_stop_elsewhere_is_a_stop_here(line, meeting, capfd):
    """One host that is asked is enough, and the log says which one it was."""
    line.say("stop", signum=15, host="algo-2")
    with pytest.raises(StopRequested):
        meeting.barrier("torchrun")
    assert "algo-2 was asked to stop" in capfd.readouterr().err


def test_the_channel_lives_while_work_is_done(line, meeting):
    """Heartbeats go on during work; its result and its errors come through."""
    for number in range(5):
        line.say("beat", after=0.05 * number)
    assert meeting.during(lambda: time.sleep(0.3) or 7) == 7
    assert line.turns >= 5
    with pytest.raises(CodeError, match="missing"):
        meeting.during(lambda: (_ for _ in ()).throw(CodeError("missing")))


def test_a_failure_here_waits_for_the_jobs_verdict(line, meeting):
    """This host's own failure is told, and what all hosts end with comes back."""
    line.say("verdict", cause=pack_cause(BAD))
    mine = failure("later", "algo-1", time=101.0, status=70)
    judged = meeting.conclude(Outcome(70, mine))
    # Without facts: it had failed before the roll call.
    assert line.told[0] == {"type": "join", "facts": None}
    assert line.told[-1] == {"type": "over", "cause": pack_cause(mine)}
    assert (judged.status, judged.cause) == (1, BAD)


def test_a_stop_here_is_told_first(line, meeting):
    """The others are to stop now, not when this host is over."""
    line.say("verdict", cause=pack_cause(BAD))
    meeting.conclude(Outcome(143, failure("stopped", "algo-1", time=1.0), stop_signal=15))
    assert [message["type"] for message in line.told] == ["join", "stop", "over"]


def test_nobody_to_ask_is_no_reason_to_wait(meeting, monkeypatch):
    """A host that is stopped before it was let in ends soon, as it is; a second signal ends it."""
    monkeypatch.setattr(Line, "joined", False)
    outcome = Outcome(143, failure("stopped", "algo-1", time=1.0), stop_signal=15)
    began = time.monotonic()
    interrupt()
    assert meeting.conclude(outcome) == outcome
    assert time.monotonic() - began < 1


def test_hosts_leave_together(line, meeting):
    """After its reports a host says so, and stays until it is let go."""
    line.say("verdict", after=0, cause=None)
    meeting.conclude(Outcome(0))
    line.say("leave", after=0.3)
    began = time.monotonic()
    meeting.leave()
    assert 0.25 < time.monotonic() - began < 2
    assert line.told[-1]["type"] == "reported"


def test_a_signal_ends_the_wait_for_the_others(line, meeting):
    """Whoever stops a container that has done its work gets it."""
    line.say("verdict", after=0, cause=None)
    meeting.conclude(Outcome(0))
    interrupt()
    began = time.monotonic()
    meeting.leave()
    assert time.monotonic() - began < 2
