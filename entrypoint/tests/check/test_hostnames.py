import socket
import threading

import pytest

from muster.check import hostnames
from muster.check.finding import Here
from muster.check.hostnames import Answer, judge
from muster.settings import read_settings

FIRST, SECOND = Answer("algo-1", ("10.0.0.1",)), Answer("algo-2", ("10.0.0.2",))


@pytest.mark.parametrize(
    ("answers", "status", "evidence"),
    [
        ((FIRST, SECOND), "PASS", "2 names resolved"),
        ((Answer("algo-1"), SECOND), "FAIL", "algo-1: no address from here"),
        ((FIRST, Answer("algo-2")), "WARN", "algo-2: no address from here"),
        (
            (FIRST, Answer("algo-2", late=True)),
            "UNKNOWN",
            "algo-2: no answer from the name server in 3 s",
        ),
        (
            (FIRST, SECOND, Answer("algo-3", ("127.0.1.1",))),
            "WARN",
            "algo-3: the name leads back to this host (loopback)",
        ),
        ((FIRST, Answer("algo-2", ("127.0.1.1",))), "PASS", "2 names resolved"),
        ((FIRST, SECOND, Answer("algo-3", ("127.0.0.3",), told=True)), "PASS", "3 names resolved"),
        ((FIRST, SECOND, Answer("algo-3", ("fe80::1%eth0", "::1"))), "PASS", "3 names resolved"),
    ],
    ids=["all", "first", "another", "late", "loopback", "own-loopback", "told", "both-families"],
)
def test_names(answers, status, evidence):
    """Without the first host's name no rank begins; another's may never be asked for."""
    found = judge(answers, "algo-2")
    assert (found.status, found.evidence) == (status, evidence)
    assert ("MUSTER_ADDRESSES" in found.remedy) == (status in ("WARN", "FAIL"))


def test_many_names_are_few_words():
    """512 hosts without a name server fill no line."""
    answers = [Answer(f"algo-{number}") for number in range(1, 513)]
    assert judge(answers, "algo-1").evidence == (
        "algo-1, algo-2, algo-3, algo-4 and 508 more: no address from here"
    )


def test_one_host_asks_nobody(look, monkeypatch):
    """A job of one host has no name to look up."""
    monkeypatch.setattr(socket, "getaddrinfo", None)
    assert look("host.names").status == "SKIP"


@pytest.fixture
def server(monkeypatch):
    """A function that sets what the name server knows; None: it never answers."""
    stop = threading.Event()

    def know(names: dict[str, str | None]) -> list[str]:
        asked = []

        def answer(name, *_, **__):
            asked.append(name)
            if name not in names:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            if names[name] is None:
                stop.wait(30)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (names[name], 0))] * 2

        monkeypatch.setattr(socket, "getaddrinfo", answer)
        return asked

    monkeypatch.setattr(hostnames, "_AGAIN_S", 0.01)
    monkeypatch.setattr(hostnames, "LOOK_S", 0.5)
    yield know
    stop.set()


def test_all_hosts_are_asked_for(look, make_job, server):
    """Each by its name, or by what MUSTER_ADDRESSES has for it."""
    job = make_job(hosts=("algo-1", "algo-2", "algo-3"))
    asked = server({"algo-1": "10.0.0.1", "two.internal": "10.0.0.2", "127.0.0.3": "127.0.0.3"})
    told = {"MUSTER_ADDRESSES": "algo-2=two.internal,algo-3=127.0.0.3"}
    assert look("host.names", job, settings=told).status == "PASS"
    assert sorted(asked) == ["127.0.0.3", "algo-1", "two.internal"]


def test_a_name_is_asked_for_twice(look, make_job, server):
    """The hosts have met: one answer of "not known" may be the name server's own trouble."""
    asked = server({"algo-1": "10.0.0.1"})
    assert look("host.names", make_job(hosts=("algo-1", "algo-2"))).status == "WARN"
    assert sorted(asked) == ["algo-1", "algo-2", "algo-2"]


def test_a_dead_name_server(look, make_job, server):
    """It costs its time-out, and is UNKNOWN."""
    server({"algo-1": "10.0.0.1", "algo-2": None})
    found = look("host.names", make_job(hosts=("algo-1", "algo-2")))
    assert (found.status, found.evidence) == (
        "UNKNOWN",
        "algo-2: no answer from the name server in 0.5 s",
    )


def test_hosts_that_have_not_met(make_job, monkeypatch):
    """With MUSTER_EXEC=1 nobody has called the roll: a name that isn't there yet ends nothing."""
    monkeypatch.setattr(hostnames, "_ask", lambda hosts, _told: [Answer(host) for host in hosts])
    job = make_job(hosts=("algo-1", "algo-2"))
    for env, status in (({}, "FAIL"), ({"MUSTER_EXEC": "1"}, "WARN")):
        here = Here(job, read_settings(env), {}, 1, "fast")
        (row,) = hostnames.CHECKS
        assert row.look(here).status == status
