"""The harness's end of resume(): real sockets, and a leader that is a list."""

from __future__ import annotations

import json
import selectors
import socket
import tempfile
from typing import Any

import pytest

from muster.launch import agreement
from muster.launch.agreement import Agreement
from muster.tally import Tally

RUN = "6a1b2c3d0001"


class Host:
    """One host's agreement, the ranks that ask it, and what it tells the leader."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.told: list[dict[str, Any]] = []
        self.selector = selectors.DefaultSelector()
        self.agreement = Agreement(self.told.append, folder)
        self.agreement.watch(self.selector)
        self.ranks: list[socket.socket] = []

    def ask(self, rank: int, *, world: int = 2, text: str = "") -> socket.socket:
        """A rank calls resume()."""
        conn = socket.socket(socket.AF_UNIX)
        conn.settimeout(5)
        conn.connect(agreement.address(self.folder))
        self.ranks.append(conn)
        tally = Tally(world, (rank,), (f"10.{RUN}",), 1, 10, f"rank {rank}", 10, 0, RUN).pack()
        conn.sendall((text or json.dumps({"tally": tally})).encode() + b"\n")
        self.turn()
        return conn

    def turn(self) -> None:
        """Handle all that has arrived."""
        while ready := self.selector.select(0.05):
            for key, _ in ready:
                key.data()

    def agreed(self, serial: int) -> None:
        tally = self.told[-1]["tally"]
        self.agreement.heed({"type": "agreed", "serial": serial, "why": "", "tally": tally})

    def close(self) -> None:
        for conn in self.ranks:
            conn.close()
        self.agreement.close()


@pytest.fixture
def host():
    """A host with a private folder whose path a socket can have."""
    with tempfile.TemporaryDirectory() as folder:
        made = Host(folder)
        yield made
        made.close()


def answer(conn: socket.socket) -> dict[str, Any]:
    return json.loads(conn.makefile().readline())


def test_ranks_wait_for_the_leader_and_get_its_answer(host):
    """Each rank that comes is told of in a sum with a higher number; the answer goes to all of them."""
    first, second = host.ask(0), host.ask(1)
    assert [(told["serial"], told["tally"]["ranks"]) for told in host.told] == [
        (1, (0,)),
        (2, (0, 1)),
    ]
    host.agreed(2)
    assert Tally.unpack(answer(first)["tally"]) == Tally.unpack(answer(second)["tally"])
    assert len(host.told) == 2


def test_a_rank_that_is_killed_does_not_wait(host):
    """The leader is told of those that are left, and of none when nobody is."""
    first, second = host.ask(0), host.ask(1)
    first.close()
    host.turn()
    assert host.told[-1]["tally"]["ranks"] == (1,)
    second.close()
    host.turn()
    assert host.told[-1] == {"type": "agree", "serial": 4, "tally": None}


def test_an_answer_is_for_those_that_were_in_what_it_answers(host):
    """A rank that was started again meanwhile goes on waiting, and is told of once more."""
    first, _ = host.ask(0), host.ask(1)
    first.close()
    host.turn()
    again = host.ask(0)
    host.agreed(2)
    assert host.told[-1]["tally"]["ranks"] == (0,)
    host.agreed(host.told[-1]["serial"])
    assert "tally" in answer(again)


def test_a_rank_that_asks_twice_waits_once(host):
    """The earlier of its calls is told so: it must be a process that should have ended."""
    first, again = host.ask(0), host.ask(0)
    assert "rank 0 has called resume() once more" in answer(first)["why"]
    assert host.told[-1]["tally"]["ranks"] == (0,)
    host.ask(1)
    host.agreed(host.told[-1]["serial"])
    assert "tally" in answer(again)


def test_different_worlds_on_one_host(host):
    """Ranks that say different numbers of ranks are not added up."""
    first = host.ask(0, world=2)
    host.ask(1, world=4)
    assert answer(first)["why"] == "the ranks say different numbers of ranks: 2 and 4"
    assert host.told[-1]["tally"]["world"] == 4


@pytest.mark.parametrize(
    "text",
    ["x", "[]", '{"tally": 1}', '{"tally": {}}', "x" * 70_000],
    ids=["text", "list", "number", "empty", "long"],
)
def test_nonsense_gets_an_answer(host, text):
    """What is no rank's question is answered with why, and the leader hears nothing of it."""
    assert "does not understand" in answer(host.ask(0, text=text))["why"]
    assert host.told == []


def test_nobody_waits_in_a_job_that_is_ending(host):
    """Those that wait are told at once, and so is who comes later."""
    first = host.ask(0)
    host.agreement.end()
    assert "the job is ending" in answer(first)["why"]
    assert "the job is ending" in answer(host.ask(1))["why"]
    assert len(host.told) == 1


def test_why_not_is_passed_on(host):
    """What keeps the leader from an answer reaches the ranks."""
    first = host.ask(0)
    host.agreement.heed({"type": "agreed", "serial": 1, "why": "rank 1 is on two hosts"})
    assert answer(first) == {"why": "rank 1 is on two hosts"}


def test_reminders_are_lines_in_the_log(host, capfd):
    """Whom the ranks wait for is said where a person looks; other directives are not touched."""
    assert host.agreement.heed({"type": "unagreed", "text": "1 of 2 ranks: 1"})
    assert "1 of 2 ranks: 1" in capfd.readouterr().err
    assert not host.agreement.heed({"type": "dump"})
