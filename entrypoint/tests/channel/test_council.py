"""At which step all ranks go on: what the leader tells when, by the clock of the test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from muster.channel.council import REMIND_S, Council
from muster.channel.wire import WireError
from muster.tally import NONE, Tally, merge

RUN = "6a1b2c3d0001"


def tally(ranks: Sequence[int], steps: Sequence[int], world: int = 4, **changes: Any) -> Tally:
    """Return what some ranks that have the same steps have together."""
    newest = max(steps, default=NONE)
    values: dict[str, Any] = {
        "world": world,
        "ranks": tuple(ranks),
        "keys": tuple(f"{step}.{RUN}" for step in sorted(steps, reverse=True)),
        "most": len(steps),
        "newest": newest,
        "poorest": f"rank {ranks[0]}",
        "lowest": newest,
        "foreign": 0,
        "run": RUN,
    }
    return Tally(**(values | changes))


def said(told: Tally | None, serial: int = 1) -> dict[str, Any]:
    return {"type": "agree", "serial": serial, "tally": told.pack() if told else None}


def hear(council: Council, host: str, told: Tally | None, serial: int = 1, now: float = 0.0):
    """Return what follows, by host."""
    council.hear(host, said(told, serial), now)
    return dict(council.answers())


def test_the_newest_that_all_have():
    """Nobody is told anything before all ranks have asked; then all are told the newest common step."""
    council = Council()
    assert hear(council, "algo-1", tally([0, 1], [10, 20, 30])) == {}
    answers = hear(council, "algo-2", tally([2, 3], [10, 20]), serial=7)
    assert {host: answer["serial"] for host, answer in answers.items()} == {
        "algo-1": 1,
        "algo-2": 7,
    }
    for answer in answers.values():
        whole = Tally.unpack(answer["tally"])
        assert whole.keys == (f"20.{RUN}",)
        assert (whole.newest, whole.lowest, whole.poorest) == (30, 20, "rank 2")
    assert council.next_due() is None


def test_two_runs_of_one_step_are_two():
    """A step that one host has of an earlier run and another of a later one is no common step."""
    council = Council()
    hear(council, "algo-1", tally([0, 1], [10], keys=(f"20.{RUN}", f"10.{RUN}")))
    answers = hear(council, "algo-2", tally([2, 3], [10], keys=("20.6a1b2c3d0002", f"10.{RUN}")))
    assert answers["algo-1"]["tally"]["keys"] == (f"10.{RUN}",)


def test_the_last_of_one_runs_states_that_all_have():
    """A run may save a sharded state of one step more than once: each counts by itself, the last first."""
    again = [f"20.{RUN}{attempt}" for attempt in (".0010", ".0002", "")]
    council = Council()
    hear(council, "algo-1", tally([0, 1], [20], keys=tuple(again)))
    answers = hear(council, "algo-2", tally([2, 3], [20], keys=tuple(again[1:])))
    assert answers["algo-1"]["tally"]["keys"] == (again[1],)


def test_a_host_tells_anew_with_each_rank():
    """What a host tells later takes the place of what it told before, under the later number."""
    council = Council()
    hear(council, "algo-2", tally([2, 3], [10]))
    hear(council, "algo-1", tally([0], [10]), serial=1)
    answers = hear(council, "algo-1", tally([0, 1], []), serial=2)
    assert answers["algo-1"]["serial"] == 2
    assert not answers["algo-1"]["tally"]["keys"]


def test_a_host_whose_ranks_are_gone_is_not_counted():
    """A rank that was killed while it waited has to ask again before anybody is told."""
    council = Council()
    hear(council, "algo-1", tally([0, 1], [10]))
    hear(council, "algo-1", None, serial=2)
    assert council.next_due() is None
    assert hear(council, "algo-2", tally([2, 3], [10])) == {}
    assert set(hear(council, "algo-1", tally([0, 1], [10]), serial=3)) == {"algo-1", "algo-2"}


def test_each_round_begins_with_nobody():
    """A second call of resume() waits for a second call of all."""
    council = Council()
    hear(council, "algo-1", tally([0, 1], [10]))
    hear(council, "algo-2", tally([2, 3], [10]))
    assert hear(council, "algo-1", tally([0, 1], [10]), serial=2) == {}
    assert set(hear(council, "algo-2", tally([2, 3], [10]), serial=2)) == {"algo-1", "algo-2"}


def test_those_that_wait_are_told_for_whom():
    """Every half minute each host that waits, and no other, is told which ranks have not called."""
    council = Council()
    hear(council, "algo-1", tally([0, 2], [10]), now=100.0)
    assert council.next_due() == 100.0 + REMIND_S
    assert dict(council.reminders(100.0 + REMIND_S - 1)) == {}
    for number in (1, 2):
        (told,) = council.reminders(100.0 + number * REMIND_S)
        assert told[0] == "algo-1"
        assert told[1]["type"] == "unagreed"
        assert told[1]["text"] == (
            f"checkpoints: after {number * REMIND_S:.0f} s, 2 of 4 ranks have not called resume() yet: "
            "1, 3"
        )
        assert council.next_due() == 100.0 + (number + 1) * REMIND_S


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (
            tally([2, 3], [10], world=8),
            "the ranks that call resume() say different numbers of ranks: 4 on algo-1, 8 on algo-2",
        ),
        (tally([1, 2], [10]), "rank 1 calls resume() on algo-1 and on algo-2"),
    ],
    ids=["worlds", "twice"],
)
def test_ranks_of_no_one_world(other, why):
    """Ranks that can't be of one world don't wait for ever: all that wait are told why."""
    council = Council()
    hear(council, "algo-1", tally([0, 1], [10]))
    answers = hear(council, "algo-2", other)
    assert [answer["why"] for answer in answers.values()] == [why, why]
    assert council.next_due() is None


@pytest.mark.parametrize(
    "changes",
    [
        {"serial": "x"},
        {"tally": 3},
        {"tally": {}},
        *(
            {"tally": tally([0], [10]).pack() | wrong}
            for wrong in (
                {"world": 0},
                {"world": True},
                {"world": 2**40},
                {"ranks": [4]},
                {"ranks": ["0"]},
                {"keys": ["10"]},
                {"keys": [f"10.{RUN}.1"]},
                {"keys": [f"{step}.{RUN}" for step in range(65)]},
                {"keys": 7},
                {"run": "x"},
                {"poorest": "x" * 400},
                {"more": 1},
            )
        ),
    ],
)
def test_nonsense_is_refused(changes):
    """A message that no harness would send is an error, and changes nothing."""
    council = Council()
    with pytest.raises((WireError, ValueError)):
        council.hear("algo-1", said(tally([0], [10])) | changes, 0.0)
    assert council.next_due() is None


def test_what_travels_is_small():
    """However many ranks and steps there are, a host's message and the answer stay small."""
    hosts = [tally(range(8 * n, 8 * n + 8), range(10**9, 10**9 + 64), 4096) for n in range(512)]
    council = Council()
    for number, host in enumerate(hosts[:-1]):
        assert len(str(said(host))) < 4000
        assert hear(council, f"algo-{number + 1}", host) == {}
    answers = hear(council, "algo-512", hosts[-1])
    assert len(answers) == 512
    assert all(len(str(answer)) < 500 for answer in answers.values())


def test_the_sum_of_sums_is_the_sum():
    """Hosts add up their ranks and the leader adds up hosts: it comes to the same."""
    one, two, three = tally([0], [1, 2, 3]), tally([1], [2, 3]), tally([2, 3], [3, 4], foreign=8)
    assert merge([merge([two, one]), three]) == merge([three, two, one])


def test_the_coordinator_passes_it_on(hosts):
    """Over the channel: reminders while ranks are missing, the answer to all, and then no more."""
    job = hosts("algo-1", "algo-2")
    job.run()
    job.say("algo-1", "agree", 2.0, serial=1, tally=tally([0, 1], [10]).pack())
    job.tick(2.0 + REMIND_S)
    assert job.kinds("algo-1")[-1] == "unagreed"
    assert "unagreed" not in job.kinds("algo-2")
    job.say("algo-2", "agree", 40.0, serial=1, tally=tally([2, 3], [10]).pack())
    assert job.kinds("algo-1")[-1] == job.kinds("algo-2")[-1] == "agreed"
    job.tick(200.0)
    assert job.kinds("algo-1")[-1] == "agreed"


def test_a_stop_ends_the_reminders(hosts):
    """Once the job is ending nobody is waited for, and nothing is said of it."""
    job = hosts("algo-1", "algo-2")
    job.run()
    job.say("algo-1", "agree", 2.0, serial=1, tally=tally([0, 1], [10]).pack())
    job.say("algo-2", "stop", 3.0, signum=15)
    # One that has called just before it was told.
    job.say("algo-1", "agree", 3.1, serial=2, tally=tally([0], [10]).pack())
    job.tick(4.0 + REMIND_S)
    assert "unagreed" not in job.kinds("algo-1")
