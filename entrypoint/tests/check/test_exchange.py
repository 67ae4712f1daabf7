import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from muster.check import probing
from muster.check.exchange import calling, make_book
from muster.check.finding import Here
from muster.check.stage import begin, conclude
from muster.errors import CheckError
from muster.settings import read_settings

NAMES = ("algo-1", "algo-2", "algo-3")
ADDRESSES = ",".join(f"{name}=127.0.0.{name[-1]}" for name in NAMES)


class Table:
    """The channel of several hosts that are threads: all tell, the first one's judge answers."""

    def __init__(self, hosts=NAMES, offsets=None) -> None:
        self.hosts = hosts
        self.clocks = offsets or dict.fromkeys(hosts, 0.0)
        self._told: dict[tuple[str, str], Any] = {}
        self._answers: dict[str, Any] = {}
        self._change = threading.Condition()

    def seat(self, host: str) -> "Seat":
        return Seat(self, host)

    def consult(self, host: str, topic: str, data: Any, judge: Callable) -> Any:
        with self._change:
            self._told[topic, host] = json.loads(json.dumps(data))
            self._change.notify_all()
            assert self._change.wait_for(lambda: self._all(topic) is not None, 20)
            if host == self.hosts[0]:
                self._answers[topic] = json.loads(json.dumps(judge(self._all(topic))))
                self._change.notify_all()
            assert self._change.wait_for(lambda: topic in self._answers, 20)
            return self._answers[topic]

    def _all(self, topic: str) -> dict[str, Any] | None:
        if not all((topic, host) in self._told for host in self.hosts):
            return None
        return {host: self._told[topic, host] for host in self.hosts}


class Seat:
    """One host's meeting."""

    def __init__(self, table: Table, host: str) -> None:
        self._table, self._host = table, host

    def consult(self, topic, data, judge):
        return self._table.consult(self._host, topic, data, judge)

    def during(self, work):
        return work()

    def offsets(self):
        return self._table.clocks


@pytest.fixture
def make_here(make_job):
    """Return a function that makes one host of a job on this machine's addresses."""

    def make(host: str, hosts=NAMES, **env: str) -> Here:
        job = make_job(hosts=hosts, current_host=host)
        settings = read_settings({"MUSTER_ADDRESSES": ADDRESSES} | env)
        return Here(job, settings, {}, 1, "fast")

    return make


def together(hosts, work) -> dict[str, Any]:
    """What `work` comes to on each host, all at once; exceptions too."""
    found: dict[str, Any] = {}

    def run(host: str) -> None:
        try:
            found[host] = work(host)
        except Exception as error:  # noqa: BLE001  (the test looks at it)
            found[host] = error

    threads = [threading.Thread(target=run, args=(host,), daemon=True) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


@pytest.fixture
def exchange(make_here):
    """Return a function that lets all hosts call each other, and returns what each has to tell."""

    def run(off=(), **env: str) -> dict[str, Any]:
        table = Table()

        def one(host: str) -> dict[str, Any]:
            seat = table.seat(host)
            with calling(make_here(host, **env), seat, wanted=host not in off) as told:
                table.consult(host, "done", None, dict)
            return told

        return together(NAMES, one)

    return run


def test_all_call_all(exchange):
    """Each host has reached the others, at the addresses that they have listened on."""
    found = exchange()
    for host in NAMES:
        assert sorted(found[host]["reached"]) == sorted(set(NAMES) - {host})
        assert found[host]["failed"] == {}
        assert found[host]["address"] == f"127.0.0.{host[-1]}"


def test_a_host_that_does_not_take_part(exchange):
    """It holds nobody up, is called by nobody, and tells only of its interface."""
    found = exchange(off=("algo-2",))
    assert "reached" not in found["algo-2"]
    assert list(found["algo-1"]["reached"]) == ["algo-3"]


def test_a_host_that_can_not_listen(exchange):
    """Why is told, and the others go on."""
    elsewhere = ADDRESSES.replace("127.0.0.3", "192.0.2.1")
    found = exchange(MUSTER_ADDRESSES=elsewhere)
    assert found["algo-3"]["trouble"].startswith("can't listen on 192.0.2.1: ")
    assert list(found["algo-1"]["reached"]) == ["algo-2"]


def test_one_host_consults_nobody(make_here):
    """It opens no port; nor does a job whose harnesses don't stay."""
    for here in (
        make_here("algo-1", ("algo-1",)),
        make_here("algo-1", MUSTER_EXEC="1"),
    ):
        with calling(here, None, wanted=True) as told:
            assert told == {}


@pytest.mark.parametrize(
    "place", [None, 5, [], ["a"], ["127.0.0.1", "7"], [7, 7], ["127.0.0.1", 0], ["a", 2**16]]
)
def test_a_place_that_makes_no_sense(place):
    """It is in nobody's book."""
    book = make_book({"algo-1": ["127.0.0.1", 7], "algo-2": place})
    assert book["book"] == {"algo-1": ["127.0.0.1", 7]}


def test_every_check_has_a_token_of_its_own():
    """What was heard once is of no use for the next."""
    assert make_book({})["token"] != make_book({})["token"]


class Closed(probing.Listener):
    """A listener behind a firewall: what it tells is a place where nobody answers."""

    def serve(self, *_: str) -> None:
        self._socket.close()
        self._socket = socket.socket()  # For close().


@pytest.fixture
def concluded(make_here):
    """Return a function that runs the whole stage of three hosts."""

    def run(hosts=NAMES, offsets=None, **env: str) -> dict[str, Any]:
        table = Table(hosts, offsets)

        def one(host: str) -> Any:
            here = make_here(host, hosts, **env)
            running = begin(here.job, here.settings, {}, 1)
            return conclude(running, table.seat(host), host)

        return together(hosts, one)

    return run


def test_three_good_hosts(concluded, capfd):
    """All go on, and the table is the first host's alone."""
    found = concluded()
    assert not [error for error in found.values() if isinstance(error, Exception)]
    log = capfd.readouterr().err
    assert log.count("checks: ") == 1
    assert "on 3 hosts" in log
    assert "FAIL" not in log


def test_the_full_level_shows_the_round_trips(concluded, capfd):
    """The fast one only judges them."""
    concluded(MUSTER_CHECK="full")
    assert "round trips in ms: median, at most" in capfd.readouterr().err


def test_a_host_that_nobody_reaches_ends_the_job(concluded, monkeypatch, capfd):
    """It alone raises: the channel ends the others with it."""
    made = probing.Listener

    def listen(address: str) -> probing.Listener:
        return (Closed if address == "127.0.0.2" else made)(address)

    monkeypatch.setattr("muster.check.exchange.Listener", listen)
    found = concluded()
    assert isinstance(found["algo-2"], CheckError)
    assert found["algo-2"].what.startswith(
        "check net.reach on algo-2: no host reaches algo-2 at 127.0.0.2:"
    )
    assert not [host for host in ("algo-1", "algo-3") if isinstance(found[host], Exception)]
    assert "FAIL    net.reach" in capfd.readouterr().err


def test_a_comparison_has_the_severity_that_the_user_gives_it(concluded, capfd):
    """net.clocks only warns, unless it is told to fail; and off is off."""
    apart = {"algo-1": 0.0, "algo-2": 30.0, "algo-3": 0.0}
    assert not isinstance(concluded(offsets=apart)["algo-2"], CheckError)
    assert "WARN    net.clocks         algo-2 is 30.0 s ahead (algo-2)" in capfd.readouterr().err
    failed = concluded(offsets=apart, MUSTER_CHECKS="net.clocks=fail")
    assert isinstance(failed["algo-2"], CheckError)
    assert "FAIL    net.clocks" in capfd.readouterr().err
    concluded(offsets=apart, MUSTER_CHECKS="net.clocks=off")
    assert "net.clocks" not in capfd.readouterr().err


def test_switched_off_nothing_is_opened(concluded, monkeypatch):
    """No port, no comparison."""
    monkeypatch.setattr("muster.check.exchange.Listener", None)
    assert concluded(MUSTER_CHECK="off") == dict.fromkeys(NAMES, ())
    assert not [
        one
        for one in concluded(MUSTER_CHECKS="net.reach=off").values()
        if isinstance(one, Exception)
    ]
