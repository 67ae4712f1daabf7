from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.channel.phases import Phase
from muster.channel.verdict import root_cause
from muster.channel.wire import WireError

from .conftest import LIMITS, Hosts, facts, failure

TWO = ("algo-1", "algo-2")


def test_nobody_starts_before_all_are_here_and_ready(hosts):
    """The welcome comes when all have joined, and go when all are ready: to all, once."""
    job = hosts(*TWO)
    job.join("algo-1")
    assert job.kinds("algo-1") == []
    job.join("algo-2", nproc=2, master_port=1234)
    for name in TWO:
        assert job.got[name] == [{"type": "welcome", "master_port": 7777, "nprocs": [2, 2]}]
    job.say("algo-2", "ready", 1.0, launcher="torchrun")
    assert job.kinds("algo-2") == ["welcome"]
    job.say("algo-1", "ready", 2.0, launcher="torchrun")
    for name in TWO:
        assert job.kinds(name) == ["welcome", "go"]


def test_a_good_job_ends_together(hosts):
    """The verdict comes when all are over, and leave when all have reported."""
    job = hosts(*TWO)
    job.run()
    job.over("algo-1", 5.0)
    assert "verdict" not in job.kinds("algo-1")
    job.over("algo-2", 9.0)
    assert job.verdict("algo-1") is job.verdict("algo-2") is None
    job.say("algo-2", "reported", 9.1)
    assert "leave" not in job.kinds("algo-2")
    job.say("algo-1", "reported", 9.2)
    assert job.kinds("algo-1")[-1] == job.kinds("algo-2")[-1] == "leave"
    assert job.coordinator.phase is Phase.LEAVE
    assert job.coordinator.next_due() is None


def test_a_failure_ends_all_after_a_time_for_an_earlier_one(hosts):
    """The first failure is not taken at once: another host's may have been before it."""
    job = hosts(*TWO)
    job.run()
    job.fail("algo-1", failure("second", "algo-1", time=100.5), 2.0)
    job.tick(2.9)
    assert "verdict" not in job.kinds("algo-1")
    job.fail("algo-2", failure("first", "algo-2", time=100.0), 2.9)
    job.tick(3.0)
    assert job.verdict("algo-1") == job.verdict("algo-2")
    assert job.verdict("algo-1").headline == "first"


def test_clocks_do_not_decide(hosts):
    """Times are compared on one clock: a host whose own is half a minute late does not win."""
    job = hosts(*TWO)
    job.join("algo-1")
    job.join("algo-2", offset=-30.0)
    job.fail("algo-2", failure("later", "algo-2", time=75.0), 2.0)  # 105 on the leader's clock.
    job.fail("algo-1", failure("earlier", "algo-1", time=100.0), 2.1)
    job.tick(3.1)
    assert job.verdict("algo-2").headline == "earlier"


def test_what_speaks_of_another_failure_waits_longer(hosts):
    """A lost connection may be told before the failure that has broken it."""
    job = hosts(*TWO)
    job.run()
    job.fail("algo-1", failure("connection reset", "algo-1", time=100.0, echo=True), 2.0)
    job.tick(3.5)
    assert "verdict" not in job.kinds("algo-1")
    job.fail("algo-2", failure("real", "algo-2", time=101.0), 3.5)
    job.tick(4.0)
    assert job.verdict("algo-1").headline == "real"


def test_more_words_of_the_same_failure_replace_the_first(hosts):
    """A host that knows more of its failure tells it again; that is still one failure."""
    job = hosts(*TWO)
    job.run()
    short = failure("the script ended with status 2", "algo-2", time=100.0)
    job.fail("algo-2", short, 2.0)
    job.over("algo-2", 2.3, dataclasses.replace(short, headline="error: no option --lr"))
    job.tick(3.0)
    assert job.verdict("algo-1").headline == "error: no option --lr"


def test_a_lost_host_ends_all(hosts):
    """Its loss is the cause; nobody waits for its report."""
    job = hosts(*TWO)
    job.run()
    job.lose("algo-2", 5.0, since=100.0)
    job.tick(6.0)
    cause = job.verdict("algo-1")
    assert (cause.kind, cause.status, cause.host) == ("lost", 77, "algo-2")
    job.say("algo-1", "reported", 6.5)
    assert job.kinds("algo-1")[-1] == "leave"
    assert "verdict" not in job.kinds("algo-2")


def test_what_a_lost_host_had_said_explains_its_loss(hosts):
    """A host that fails and goes has failed: it is not merely lost."""
    job = hosts(*TWO)
    job.run()
    job.fail("algo-2", failure("out of memory", "algo-2", time=100.0), 5.0)
    job.lose("algo-2", 5.1, since=100.0)
    job.tick(6.0)
    assert job.verdict("algo-1").headline == "out of memory"


def test_one_stop_is_enough(hosts):
    """A stop on one host goes to all others; they end in their own time, as long as it takes."""
    job = hosts("algo-1", "algo-2", "algo-3")
    job.run()
    job.say("algo-2", "stop", 5.0, signum=15)
    for name in ("algo-1", "algo-3"):
        assert job.got[name][-1] == {"type": "stop", "signum": 15, "host": "algo-2"}
    assert "stop" not in job.kinds("algo-2")
    job.over("algo-2", 6.0)
    # A rank that was asked to end, and did not end well, does not cut the others' time.
    job.over("algo-1", 7.0, failure("SIGTERM", "algo-1", time=100.0, asked=True, status=143))
    job.tick(100.0)
    assert "verdict" not in job.kinds("algo-1")
    job.over("algo-3", 110.0)
    assert [job.verdict(name).status for name in job.names] == [143] * 3


def test_a_second_stop_changes_nothing(hosts):
    """The platform asks every host: each tells of it, and the first has been passed on already."""
    job = hosts(*TWO)
    job.run()
    for name in TWO:
        job.say(name, "stop", 5.0, signum=15)
    assert [job.kinds(name).count("stop") for name in TWO] == [0, 1]


def test_a_roll_call_has_an_end(hosts):
    """Who is here ends with the list of who is not, and why; nobody waits for those any more."""
    job = hosts("algo-1", "algo-2", "algo-3")
    job.join("algo-1")
    job.join("algo-2")
    job.coordinator.reasons["algo-3"] = "its name does not resolve"
    job.tick(899.0)
    assert "verdict" not in job.kinds("algo-1")
    job.tick(900.0)
    cause = job.verdict("algo-2")
    assert (cause.kind, cause.status) == ("rollcall", 74)
    assert cause.headline == (
        "2 of 3 hosts after 900 s, missing: algo-3 (its name does not resolve)"
    )
    for name in TWO:
        job.say(name, "reported", 901.0)
    assert job.kinds("algo-1")[-1] == "leave"


def test_a_host_that_fails_early_tells_those_that_come_later(hosts):
    """Its failure waits a while for hosts that have not started yet: they must not wait for it."""
    job = hosts(*TWO)
    job.coordinator.join("algo-1", None, 0.0, 1.0)
    job.over("algo-1", 1.0, failure("no JSON", "algo-1", time=100.0, kind="contract", status=70))
    job.tick(2.0)
    job.say("algo-1", "reported", 2.0)
    assert "leave" not in job.kinds("algo-1")
    job.join("algo-2", now=10.0)
    assert job.verdict("algo-2").headline == "no JSON"
    job.say("algo-2", "reported", 10.1)
    assert job.kinds("algo-1")[-1] == job.kinds("algo-2")[-1] == "leave"


def test_a_host_that_fails_early_does_not_wait_for_ever(hosts):
    """Hosts that never come are given up."""
    job = hosts(*TWO)
    job.coordinator.join("algo-1", None, 0.0, 1.0)
    job.over("algo-1", 1.0, failure("no JSON", "algo-1", time=100.0))
    job.tick(2.0)
    job.say("algo-1", "reported", 2.0)
    job.tick(2.0 + LIMITS.ending)
    assert job.kinds("algo-1")[-1] == "leave"


def test_a_stop_in_the_roll_call_waits_for_nobody(hosts):
    """Whoever stops a job before all are here has not the time to wait for the rest."""
    job = hosts("algo-1", "algo-2", "algo-3")
    job.join("algo-1")
    job.join("algo-2")
    job.say("algo-1", "stop", 3.0, signum=15)
    stopped = failure("stopped", "algo-1", time=100.0, kind="signal", status=143, asked=True)
    job.over("algo-1", 3.0, stopped)
    job.over("algo-2", 3.1, dataclasses.replace(stopped, host="algo-2", time=100.1))
    assert job.verdict("algo-2").status == 143
    job.say("algo-1", "reported", 3.2)
    # One that comes now is told so too.
    job.join("algo-3", now=3.3)
    assert job.verdict("algo-3").status == 143
    for name in ("algo-2", "algo-3"):
        job.say(name, "reported", 3.4)
    assert [job.kinds(name)[-1] for name in job.names] == ["leave"] * 3


def test_a_host_that_comes_into_a_stop_is_stopped(hosts):
    """It has missed the others' stop, and gets its own."""
    job = hosts(*TWO)
    job.join("algo-1")
    job.say("algo-1", "stop", 3.0, signum=15)
    job.join("algo-2", now=3.1)
    assert job.kinds("algo-2") == ["stop"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"hosts": ("algo-2",), "world": ("algo-2",)},
            "the list of hosts differs: algo-1 has algo-1, algo-2, algo-2 has algo-2: only algo-1",
        ),
        ({"world": ("algo-2",)}, "the hosts that train together differs"),
        ({"muster": "0.2.0"}, "muster differs: algo-1 has 0.1.0, algo-2 has 0.2.0"),
        ({"image": ""}, "the image differs: algo-1 has ddp-cpu 123, algo-2 has none"),
        ({"torch": "2.7.1"}, "torch differs: algo-1 has 2.13.0, algo-2 has 2.7.1"),
        ({"nproc": 7}, "the number of ranks a host differs: algo-1 has 2, algo-2 has 7"),
    ],
)
def test_hosts_of_different_jobs_do_not_start(hosts, changes, said):
    """A difference is told with both sides, on both."""
    job = hosts(*TWO)
    job.join("algo-1")
    job.join("algo-2", **changes)
    for name in TWO:
        assert job.verdict(name).headline.startswith(said)
        assert job.verdict(name).kind == "rollcall"


def test_groups_may_have_different_hosts(hosts):
    """Another group may have other GPUs: the ranks are counted, not multiplied."""
    job = hosts(*TWO)
    job.join("algo-1", nproc=8)
    job.join("algo-2", nproc=4, group="other", interface="ens5")
    assert job.got["algo-1"][0]["nprocs"] == [8, 4]
    assert job.coordinator.remarks == (
        "the interfaces between the hosts differ: eth0 on algo-1; ens5 on algo-2",
    )


def test_hosts_with_different_launchers_do_not_start(hosts):
    """A launcher is chosen on each host; two kinds would never meet."""
    job = hosts(*TWO)
    job.join()
    job.say("algo-1", "ready", 1.0, launcher="torchrun")
    job.say("algo-2", "ready", 1.0, launcher="plain")
    assert job.verdict("algo-2").headline == (
        "the launcher differs: algo-1 has torchrun, algo-2 has plain"
    )


def test_nobody_goes_when_a_host_is_lost_already(hosts):
    """A host that was ready and is gone does not become part of the job again."""
    job = hosts("algo-1", "algo-2", "algo-3")
    job.join()
    job.say("algo-3", "ready", 1.0, launcher="torchrun")
    job.lose("algo-3", 1.1, since=100.0)
    for name in TWO:
        job.say(name, "ready", 1.5, launcher="torchrun")
    job.tick(2.1)
    assert job.kinds("algo-1") == ["welcome", "verdict"]
    assert job.verdict("algo-1").host == "algo-3"


def test_a_host_that_does_not_know_its_name_has_one(hosts):
    """A contract that can't be read leaves the cause without a host: the leader knows whose it is."""
    job = hosts(*TWO)
    job.join("algo-1")
    job.coordinator.join("algo-2", None, 0.0, 1.0)
    job.over("algo-2", 1.0, failure("no JSON", "-", time=100.0, kind="contract", status=70))
    job.tick(2.0)
    assert job.verdict("algo-1").host == "algo-2"


def test_an_unknown_time_is_not_the_earliest():
    """A cause without a time comes after those that have one."""
    known, unknown = failure("known", "algo-1", time=100.0), failure("unknown", "algo-2", time=0.0)
    assert root_cause([unknown, known]) == known
    assert root_cause([unknown]) == unknown


def test_last_ranks_that_never_end_have_a_name(hosts):
    """Some time after the last good end the rest are asked for their stacks, and ended."""
    job = hosts(*TWO)
    job.run()
    job.say("algo-1", "ranks", 5.0, done=0, living=2)
    job.say("algo-2", "ranks", 5.0, done=0, living=2)
    job.say("algo-1", "ranks", 10.0, done=2, living=0)
    job.say("algo-2", "ranks", 20.0, done=1, living=1)
    job.over("algo-1", 20.0)
    job.tick(619.0)
    assert "dump" not in job.kinds("algo-2")
    job.tick(620.0)
    assert "dump" in job.kinds("algo-2")
    assert "dump" not in job.kinds("algo-1")
    job.say("algo-2", "stacks", 620.5, rank=3, text="train.py line 7 in save")
    job.tick(621.0)
    cause = job.verdict("algo-1")
    assert (cause.kind, cause.status, cause.host) == ("stalled", 78, "algo-2")
    assert cause.headline == "3 ranks are done, 1 still run 600 s later: 1 on algo-2"
    assert "train.py line 7 in save" in cause.detail


def test_stragglers_may_be_meant(hosts):
    """MUSTER_STRAGGLE_S=0: whatever the last ranks do, they may."""
    job = hosts(*TWO, limits=dataclasses.replace(LIMITS, straggle=0))
    job.run()
    job.say("algo-1", "ranks", 5.0, done=2, living=0)
    job.say("algo-2", "ranks", 5.0, done=0, living=2)
    assert job.coordinator.next_due() is None


def test_ranks_that_end_in_time_are_no_stragglers(hosts):
    """The clock starts anew with every rank that ends, and stops with the last."""
    job = hosts(*TWO)
    job.run()
    job.say("algo-2", "ranks", 5.0, done=0, living=2)
    job.say("algo-1", "ranks", 6.0, done=1, living=1)
    job.say("algo-1", "ranks", 7.0, done=2, living=0)
    job.say("algo-2", "ranks", 8.0, done=2, living=0)
    assert job.coordinator.next_due() is None


@pytest.mark.parametrize(
    "message",
    [
        {"type": "?"},
        {},
        {"type": ["over"]},
        {"type": "over", "cause": "x"},
        {"type": "failed", "cause": None},
        {"type": "failed", "cause": {"headline": "x"}},
        {"type": "stop"},
        {"type": "stop", "signum": "15"},
        {"type": "ranks", "done": float("nan"), "living": 1},
        {"type": "ranks", "done": 10**400, "living": 1},
        {"type": "stacks", "rank": None, "text": ""},
        {"type": "ready"},
    ],
)
def test_nonsense_is_refused(hosts, message):
    """A message that makes no sense is an error of its sender, and changes nothing."""
    job = hosts(*TWO)
    job.join()
    with pytest.raises(WireError):
        job.coordinator.hear("algo-2", message, 1.0)
    assert job.coordinator.verdict is None


def test_a_host_must_join_before_it_speaks(hosts):
    """Nothing counts of a host that has not said who it is."""
    job = hosts(*TWO)
    with pytest.raises(WireError):
        job.coordinator.hear("algo-2", {"type": "reported"}, 1.0)


causes = st.builds(
    lambda time, asked, echo, status: {
        "time": time,
        "asked": asked,
        "echo": echo,
        "status": status,
    },
    st.floats(1, 100),
    st.booleans(),
    st.booleans(),
    st.integers(1, 255),
)


@given(st.lists(causes, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(several, random):
    """Whatever the order in which failures arrive within the settle time, the verdict is the same:
    one that was not asked for before one that was, one that speaks for itself before an echo,
    and then the earliest."""
    names = [f"algo-{i + 1}" for i in range(len(several))]
    told = [
        failure(f"on {name}", name, **values) for name, values in zip(names, several, strict=True)
    ]
    best = min(told, key=lambda cause: (cause.asked, cause.echo, cause.time))
    verdicts = set()
    for _ in range(3):
        job = Hosts(*names)
        job.run()
        for cause in random.sample(told, len(told)):
            job.fail(cause.host, cause, 2.0)
        job.tick(4.0)
        verdicts |= {job.verdict(name).time for name in names}
    assert verdicts == {best.time}


events = st.lists(
    st.tuples(
        st.sampled_from(["over", "failed", "stop", "lose", "reported", "tick", "ranks", "ready"]),
        st.sampled_from(["algo-1", "algo-2", "algo-3"]),
        st.floats(0, 30),
    ),
    max_size=25,
)


def happen(job: Hosts, kind: str, name: str, now: float) -> None:
    """Let one event happen to a host."""
    {
        "tick": lambda: job.tick(now),
        "lose": lambda: job.lose(name, now, since=now),
        "failed": lambda: job.fail(name, failure("x", name, time=now), now),
        "over": lambda: job.over(name, now),
        "stop": lambda: job.say(name, "stop", now, signum=15),
        "ranks": lambda: job.say(name, "ranks", now, done=1, living=1),
        "ready": lambda: job.say(name, "ready", now, launcher="torchrun"),
        "reported": lambda: job.say(name, "reported", now),
    }[kind]()


@given(events)
def test_any_order_of_events_ends(sequence):
    """Whatever happens in whatever order: at most one verdict a host, the same on all, nothing
    after leave, and in the end, when all are over, everybody has been let go."""
    job = Hosts("algo-1", "algo-2", "algo-3")
    job.join()
    now = 1.0
    for kind, name, later in sequence:
        now += later
        happen(job, kind, name, now)
    for name in job.names:
        job.over(name, now)
    for name, then in itertools.product(job.names, (now, now + 1000)):
        job.say(name, "reported", then)
    assert job.coordinator.phase is Phase.LEAVE
    lost = {host.name for host in job.coordinator.roster if host.lost}
    verdicts = set()
    for name in set(job.names) - lost:
        assert job.kinds(name).count("verdict") == job.kinds(name).count("leave") == 1
        assert job.kinds(name)[-1] == "leave"
        verdicts.add(str(job.verdict(name)))
    assert len(verdicts) <= 1


def test_facts_survive_the_way():
    """Facts are the same after their journey, and anything else is refused."""
    mine = facts("algo-1", "algo-2")
    assert type(mine).unpack(mine.pack()) == mine
    for broken in ({}, None, mine.pack() | {"nproc": "2"}, mine.pack() | {"hosts": [1]}):
        with pytest.raises(WireError):
            type(mine).unpack(broken)
