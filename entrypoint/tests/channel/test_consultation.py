import pytest

from muster.channel.wire import WireError

from .conftest import Hosts, failure


@pytest.fixture
def hosts() -> Hosts:
    """Return three hosts that are all here."""
    hosts = Hosts("algo-1", "algo-2", "algo-3")
    hosts.join()
    hosts.got.clear()
    return hosts


def kinds(hosts: Hosts, name: str) -> list[str]:
    return [message["type"] for message in hosts.got[name]]


def test_the_leader_hears_all_and_answers_all(hosts):
    """Once all have told, the leader alone gets what they told, in the job's order; its answer goes to all."""
    for name in ("algo-3", "algo-1"):
        hosts.say(name, "tell", 1.0, topic="checks", data=[name])
    assert not hosts.got
    hosts.say("algo-2", "tell", 2.0, topic="checks", data=[])
    told = {"algo-1": ["algo-1"], "algo-2": [], "algo-3": ["algo-3"]}
    assert hosts.got.pop("algo-1") == [{"type": "told", "topic": "checks", "data": told}]
    assert not hosts.got
    hosts.say("algo-1", "answer", 3.0, topic="checks", answer={"host": ""})
    answer = {"type": "answered", "topic": "checks", "answer": {"host": ""}}
    assert [hosts.got[name] for name in hosts.names] == [[answer]] * 3


def test_topics_are_apart(hosts):
    """What is told of one counts for no other."""
    for name, topic in (("algo-1", "a"), ("algo-2", "b"), ("algo-3", "a")):
        hosts.say(name, "tell", 1.0, topic=topic, data=1)
    assert not hosts.got
    hosts.say("algo-2", "tell", 1.0, topic="a", data=2)
    assert kinds(hosts, "algo-1") == ["told"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("algo-2", {"type": "answer", "topic": "a", "answer": 1}),
        ("algo-2", {"type": "tell", "data": 1}),
        ("algo-2", {"type": "tell", "topic": "a", "data": "x" * 70_000}),
    ],
    ids=["not the leader's", "no topic", "too long"],
)
def test_what_makes_no_sense_is_refused(hosts, name, message):
    """And changes nothing."""
    with pytest.raises(WireError):
        hosts.coordinator.hear(name, message, 1.0)
    hosts.collect()
    assert not hosts.got


def test_nobody_tells_twice(hosts):
    """The first word counts: a second one would change what others have been judged by."""
    hosts.say("algo-2", "tell", 1.0, topic="a", data=1)
    with pytest.raises(WireError, match="told twice"):
        hosts.say("algo-2", "tell", 1.0, topic="a", data=2)


def test_a_host_that_fails_meanwhile_ends_the_wait(hosts):
    """Those that have told get the verdict."""
    hosts.say("algo-1", "tell", 1.0, topic="a", data=1)
    hosts.over("algo-2", 2.0, failure("no code", "algo-2", time=1.0))
    hosts.tick(5.0)
    assert "verdict" in kinds(hosts, "algo-1")
