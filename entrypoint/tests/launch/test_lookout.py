from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from muster.launch import lookout
from muster.launch.lookout import Lookout
from muster.launch.proc import processes
from muster.training.dump import SIGNAL

CATCHES = """
import time
from muster.training.dump import show_stacks_on_request
show_stacks_on_request()
def deep_inside():
    print("ready", flush=True)
    time.sleep(60)
deep_inside()
"""
IGNORANT = "import time; print('ready', flush=True); time.sleep(60)"


@dataclass
class Tail:
    """What a rank has said last."""

    lines: tuple[str, ...] = ()

    def tail_lines(self) -> tuple[str, ...]:
        return self.lines


@dataclass
class Rank:
    """A rank as far as it can be looked at."""

    rank: int
    pid: int
    stderr: Tail


class Ranks:
    """The ranks of a host."""

    def __init__(self, *living: Rank) -> None:
        self.living = list(living)


@pytest.fixture
def started() -> Iterator:
    """Return a function that starts a Python, and returns it when it is ready."""
    processes: list[subprocess.Popen] = []

    def start(script: str, *before: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [*before, sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        processes.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def read_until(process, wanted: bytes) -> None:
    """What a program prints comes in pieces. The test's own time is the limit."""
    printed = b""
    while wanted not in printed:
        piece = os.read(process.stderr.fileno(), 65536)
        assert piece, printed
        printed += piece


def test_a_python_shows_where_it_is(started, capfd):
    """A rank that catches the signal prints its stacks and lives on."""
    process = started(CATCHES)
    Lookout(Ranks(Rank(3, process.pid, Tail())), 10).ask_for_stacks()
    read_until(process, b"in deep_inside")
    assert process.poll() is None
    assert "rank 3 still runs, asking where it is" in capfd.readouterr().err


def test_behind_a_shell_its_python_is_asked(started):
    """Where a shell stands in the rank's place, what it has started is asked."""
    process = started(CATCHES, "/bin/sh", "-c", '"$@"; true', "sh")
    Lookout(Ranks(Rank(0, process.pid, Tail())), 10).ask_for_stacks()
    read_until(process, b"in deep_inside")
    for child in [one.pid for one in processes() if one.parent == process.pid]:
        os.kill(child, signal.SIGKILL)


def test_a_program_that_would_die_of_it_is_left_alone(started, capfd):
    """The signal ends who does not catch it: nobody is asked who doesn't."""
    process = started(IGNORANT)
    ranks = Ranks(Rank(3, process.pid, Tail()), Rank(4, 0, Tail()))
    Lookout(ranks, 10).ask_for_stacks()
    time.sleep(0.1)
    assert process.poll() is None
    assert capfd.readouterr().err.count("and can't be asked where it is") == 2


def test_the_users_own_handler_stays(started):
    """Who uses that signal already keeps it."""
    script = f"import signal\nsignal.signal({int(SIGNAL)}, lambda *_: print('own', flush=True))\n"
    process = started(script + CATCHES)
    os.kill(process.pid, SIGNAL)
    assert process.stdout.readline() == b"own\n"


def test_stacks_are_told_once_when_they_had_their_time(monkeypatch):
    """Of a rank's last lines those from the dump on; all where there is none."""
    monkeypatch.setattr(lookout, "_STACKS_S", 0.05)
    dump = ("epoch 7", "Current thread 0x01 (most recent call first):", '  File "train.py", line 7')
    look = Lookout(Ranks(Rank(0, 0, Tail(dump)), Rank(1, 0, Tail(("epoch 7",)))), 10)
    look.ask_for_stacks()
    assert list(look.stacks()) == []
    time.sleep(0.06)
    assert list(look.stacks()) == [(0, "\n".join(dump[1:])), (1, "epoch 7")]
    assert list(look.stacks()) == []


def test_a_rank_that_stays_stopped_is_found(started, monkeypatch):
    """One that goes on in time is not; a rank that was stopped for too long is told once."""
    monkeypatch.setattr(lookout, "_LOOK_S", 0.0)
    process = started(IGNORANT)
    look = Lookout(Ranks(Rank(3, process.pid, Tail())), 0.2)
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    assert not look.look()
    os.kill(process.pid, signal.SIGCONT)
    time.sleep(0.25)
    assert not look.look()
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    assert not look.look()
    time.sleep(0.25)
    assert look.look()
    assert look.frozen[0] == 3
    assert not look.look()
