import dataclasses

import pytest

from muster.check import interface as module
from muster.check.finding import Here
from muster.check.interface import CHECKS, Interface, interface, judge_interface
from muster.settings import read_settings

GOOD = Interface("eth0", "10.0.0.2", 9001, "up")
(LOOK,) = [check.look for check in CHECKS if check.name == "net.interface"]


@pytest.fixture
def make_here(make_job, tmp_path, monkeypatch):
    """Return a function that makes a host whose /sys and addresses are given."""
    monkeypatch.setattr(module, "address_of", {"eth0": "10.0.0.2"}.get)

    def make(hosts=("algo-1", "algo-2"), env=None, files=None, **changes) -> Here:
        folder = tmp_path / "class" / "net" / "eth0"
        folder.mkdir(parents=True)
        for name, text in (files or {"mtu": "1500\n", "operstate": "up\n"}).items():
            (folder / name).write_text(text, encoding="ascii")
        job = make_job(hosts=hosts, **changes)
        return Here(job, read_settings(env or {}), {}, 1, "fast", sys=str(tmp_path))

    return make


def test_a_good_one():
    """With name, address and MTU."""
    assert judge_interface(GOOD).evidence == "eth0 10.0.0.2, MTU 9001"
    assert judge_interface(dataclasses.replace(GOOD, state="unknown")).status == "PASS"


@pytest.mark.parametrize(
    ("changes", "status", "evidence"),
    [
        ({"state": "down"}, "FAIL", "eth0 10.0.0.2, MTU 9001, down"),
        ({"address": ""}, "WARN", "eth0 without an address, MTU 9001"),
        ({"name": ""}, "WARN", "no interface between the hosts is known"),
        ({"address": "", "mtu": 0}, "UNKNOWN", "eth0: neither /sys nor the kernel tells of it"),
    ],
    ids=["down", "no address", "none", "unknown"],
)
def test_others(changes, status, evidence):
    """What is wrong is told, with what to do."""
    found = judge_interface(dataclasses.replace(GOOD, **changes))
    assert (found.status, found.evidence) == (status, evidence)
    assert bool(found.remedy) == (status in ("WARN", "FAIL"))


def test_as_this_host_has_it(make_here):
    """By /sys and the kernel; what is told to the others goes with it."""
    here = make_here()
    assert LOOK(here).status == "PASS"
    assert interface(here) == Interface("eth0", "10.0.0.2", 1500, "up")
    assert interface(here).pack() == {"interface": "eth0", "address": "10.0.0.2", "mtu": 1500}


def test_without_sys(make_here):
    """Its address alone is known."""
    found = LOOK(make_here(files={"mtu": "?"}))
    assert (found.status, found.evidence) == ("PASS", "eth0 10.0.0.2, MTU 0")


def test_none_is_chosen(make_here):
    """Several hosts need one."""
    assert LOOK(make_here(interface="")).status == "WARN"


@pytest.mark.parametrize(
    ("hosts", "env"),
    [
        (("algo-1",), {}),
        (("algo-1", "algo-2"), {"MUSTER_EXEC": "1"}),
        (("algo-1", "algo-2"), {"MUSTER_ADDRESSES": "algo-1=127.0.0.1,algo-2=127.0.0.2"}),
    ],
    ids=["one host", "no harness stays", "one machine"],
)
def test_where_there_is_none_to_look_at(make_here, hosts, env):
    """Hosts that don't meet others, or only on their own machine."""
    assert LOOK(make_here(hosts, env)).status == "SKIP"
