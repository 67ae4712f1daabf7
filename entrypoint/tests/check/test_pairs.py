from dataclasses import replace
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
    worst_first,
)

FOUR = ("algo-1", "algo-2", "algo-3", "algo-4")


def isolate(hosts, try_pair, limits=ON_CPUS, *, suspicious=False):
    """Return what the rounds find, and how many there were; `try_pair` says how long two hosts take, or why they fail."""
    trials, rounds = Trials(hosts, (), limits, suspicious=suspicious), 0
    while (pairs := next_round(trials)) and rounds < ROUNDS:
        assert len({host for pair in pairs for host in pair}) == 2 * len(pairs)
        found = []
        for pair in pairs:
            said = try_pair(*pair)
            found.append(Trial(pair, said) if isinstance(said, str) else Trial(pair, ms=said))
        trials, rounds = replace(trials, done=(*trials.done, *found)), rounds + 1
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
    assert "1000.0 ms, 100.0 times what the quickest of 4 pairs take" in evidence
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


@pytest.mark.parametrize("bad", FOUR[:3])
@pytest.mark.parametrize("what", [1000.0, "has not ended"])
def test_any_one_of_three(bad, what):
    """All three pairs are made: in two of them is the bad one, in whichever place it stands."""
    hosts = FOUR[:3]
    statuses, rounds, _ = isolate(hosts, lambda *pair: what if bad in pair else 10.0)
    assert {host for host, status in statuses.items() if status != "PASS"} == {bad}
    assert rounds == 3
    assert set(isolate(hosts, with_bad())[0].values()) == {"PASS"}


@pytest.mark.parametrize("bad", list(combinations(range(6), 2)))
def test_two_slow_ones_of_six(bad):
    """Though they are in most pairs of the first round."""
    hosts = [f"algo-{i + 1}" for i in range(6)]
    slow = {hosts[i] for i in bad}
    statuses, _, _ = isolate(hosts, with_bad(*slow))
    assert {host for host, status in statuses.items() if status != "PASS"} == slow


def test_nobody_stands_out():
    """All hosts together are slow, and every pair is like the others: nobody is cleared by that."""
    statuses, rounds, trials = isolate(FOUR, with_bad(*FOUR), suspicious=True)
    assert set(statuses.values()) == {"UNKNOWN"}
    assert rounds == 1
    assert (
        "2 pairs: 1000.0 to 1000.0 ms, and no host stands out"
        in verdicts(trials)["algo-1"].evidence
    )
    assert set(isolate(FOUR[:2], with_bad(), suspicious=True)[0].values()) == {"UNKNOWN"}


def test_a_host_is_judged_by_its_best_trial():
    """A little slow with a good host is a warning, whatever came of it with a broken one; that one is to blame first."""
    times = {
        frozenset(("algo-1", "algo-2")): "has not ended",
        frozenset(("algo-3", "algo-4")): 10.0,
        frozenset(("algo-1", "algo-3")): 12.5,
        frozenset(("algo-2", "algo-4")): "has not ended",
    }
    statuses, _, trials = isolate(FOUR, lambda *pair: times[frozenset(pair)], ON_GPUS)
    assert statuses == {"algo-1": "WARN", "algo-2": "FAIL", "algo-3": "PASS", "algo-4": "PASS"}
    assert worst_first(trials)[0] == "algo-2"


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


@given(st.integers(2, 40), st.data())
def test_whoever_is_bad_is_named(number, data):
    """Of any number of hosts fewer than half of which are bad, by the last round; a good host never is."""
    hosts = [f"algo-{i + 1}" for i in range(number)]
    bad = set(data.draw(st.lists(st.sampled_from(hosts), max_size=(number - 1) // 2, unique=True)))
    fails = lambda one, other: "fails" if {one, other} & bad else 10.0  # noqa: E731
    statuses, rounds, _ = isolate(hosts, fails)
    assert rounds <= ROUNDS
    named = {host for host, status in statuses.items() if status == "FAIL"}
    assert named <= bad
    if len(bad) * 3 <= number:
        assert named == bad
