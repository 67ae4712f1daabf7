from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.check.collective.pairs import (
    ON_CPUS,
    ON_GPUS,
    ROUNDS,
    Trial,
    Trials,
    next_round,
    verdicts,
)

FOUR = ("algo-1", "algo-2", "algo-3", "algo-4")


def isolate(hosts, try_pair, limits=ON_CPUS):
    """Return what the rounds find, and how many there were; `try_pair` says how long two hosts take, or why they fail."""
    trials, rounds = Trials(hosts, (), limits), 0
    while (pairs := next_round(trials)) and rounds < ROUNDS:
        assert len({host for pair in pairs for host in pair}) == 2 * len(pairs)
        found = []
        for pair in pairs:
            said = try_pair(*pair)
            found.append(Trial(pair, said) if isinstance(said, str) else Trial(pair, ms=said))
        trials, rounds = Trials(hosts, (*trials.done, *found), limits), rounds + 1
    return {host: found.status for host, found in verdicts(trials).items()}, rounds, trials


def with_bad(*bad, ms=1000.0):
    """Return pairs' times where some hosts are slow."""
    return lambda one, other: ms if {one, other} & set(bad) else 10.0


def test_all_are_well():
    """One round of neighbours is enough."""
    statuses, rounds, trials = isolate(FOUR, with_bad())
    assert set(statuses.values()) == {"PASS"}
    assert rounds == 1
    assert [test.pair for test in trials.done] == [("algo-1", "algo-2"), ("algo-3", "algo-4")]


@pytest.mark.parametrize("bad", FOUR)
def test_a_slow_host_of_four_is_named(bad):
    """In two rounds, and nobody else is."""
    statuses, rounds, trials = isolate(FOUR, with_bad(bad))
    assert {host for host, status in statuses.items() if status != "PASS"} == {bad}
    assert rounds == 2
    evidence = verdicts(trials)[bad].evidence
    assert "1000.0 ms, 100.0 times the median of 4 pairs" in evidence
    assert evidence.endswith("did well")


@pytest.mark.parametrize("bad", list(combinations(FOUR, 2)))
def test_two_of_four(bad):
    """Half of the hosts are found all the same, where they fail outright."""
    fails = lambda one, other: "has not ended" if {one, other} & set(bad) else 10.0  # noqa: E731
    statuses, rounds, _ = isolate(FOUR, fails)
    assert {host for host, status in statuses.items() if status == "FAIL"} == set(bad)
    assert rounds <= 3


def test_one_of_two():
    """Nobody can tell, and both are told so."""
    statuses, rounds, trials = isolate(("algo-1", "algo-2"), lambda *_: "wrong values")
    assert statuses == {"algo-1": "FAIL", "algo-2": "FAIL"}
    assert rounds == 1
    found = verdicts(trials)["algo-1"].evidence
    assert (
        found
        == "with algo-2: wrong values; it may as well be the other one: no third host can tell"
    )


def test_the_odd_one_of_three():
    """The first round leaves it out, the second doesn't."""
    hosts = FOUR[:3]
    statuses, _, _ = isolate(hosts, with_bad("algo-3"))
    assert statuses == {"algo-1": "PASS", "algo-2": "PASS", "algo-3": "WARN"}
    assert set(isolate(hosts, with_bad())[0].values()) == {"PASS"}


def test_a_bad_path_between_two_good_hosts():
    """Each is well with another one: the way between them is what is told."""
    bad = {"algo-1", "algo-2"}
    statuses, _, trials = isolate(FOUR, lambda *pair: 1000.0 if set(pair) == bad else 10.0)
    assert [statuses[host] for host in FOUR] == ["WARN", "WARN", "PASS", "PASS"]
    assert verdicts(trials)["algo-1"].evidence.endswith("with others both are well")


@pytest.mark.parametrize(("ms", "status"), [(11.0, "PASS"), (12.5, "WARN"), (15.0, "FAIL")])
def test_how_slow_is_slow_on_gpus(ms, status):
    """85 % of the median's bandwidth is worth a look, 70 % ends the job."""
    assert isolate(FOUR, with_bad("algo-2", ms=ms), ON_GPUS)[0]["algo-2"] == status


def test_one_host():
    """There is nobody to try it with."""
    assert isolate(("algo-1",), with_bad())[0] == {"algo-1": "SKIP"}


@given(st.integers(2, 40), st.data())
def test_whoever_is_bad_is_named(number, data):
    """Of any number of hosts fewer than half of which are bad, by the last round; a good host never is."""
    hosts = [f"algo-{i + 1}" for i in range(number)]
    bad = set(data.draw(st.lists(st.sampled_from(hosts), max_size=(number - 1) // 2, unique=True)))
    fails = lambda one, other: "fails" if {one, other} & bad else 10.0  # noqa: E731
    statuses, rounds, trials = isolate(hosts, fails)
    assert rounds <= ROUNDS
    named = {host for host, status in statuses.items() if status == "FAIL"}
    assert named <= bad if not next_round(trials) else True
    if len(bad) * 3 <= number:
        assert named == bad
