import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.contract.resources import choose_interface, natural_key, read_resources
from muster.errors import ContractError
from muster.model import Group

TODAY = {
    "current_host": "algo-2",
    "current_instance_type": "ml.g5.12xlarge",
    "current_group_name": "homogeneousCluster",
    "hosts": ["algo-1", "algo-2"],
    "instance_groups": [
        {
            "instance_group_name": "homogeneousCluster",
            "instance_type": "ml.g5.12xlarge",
            "hosts": ["algo-1", "algo-2"],
        }
    ],
    "network_interface_name": "eth0",
    "topology": None,
}
"""All the keys that a job of today has."""

OLD = {"current_host": "algo-1", "hosts": ["algo-1", "algo-2"], "network_interface_name": "eth0"}
"""A job of some years ago."""


def read(config: dict[str, Any]):
    return read_resources(config, fallback_host="box")


def choose(named: str | None, present: tuple[str, ...], routed: str = ""):
    return choose_interface({"network_interface_name": named}, present, lambda: routed)


def test_a_job_of_today():
    """All keys are read, and a topology of null disturbs nothing."""
    cluster = read(TODAY)
    assert cluster.current_host == "algo-2"
    assert cluster.hosts == ("algo-1", "algo-2")
    assert (cluster.instance_type, cluster.group) == ("ml.g5.12xlarge", "homogeneousCluster")
    assert cluster.groups == (Group("homogeneousCluster", "ml.g5.12xlarge", ("algo-1", "algo-2")),)


def test_a_job_of_old():
    """Hosts are enough: everything else has a default."""
    cluster = read(OLD)
    assert cluster.hosts == ("algo-1", "algo-2")
    assert (cluster.instance_type, cluster.group) == ("local", "homogeneousCluster")
    assert cluster.groups == ()


def test_no_file_is_one_host():
    """Without a resourceconfig the job is this machine, by the name it gives itself."""
    assert read({}).hosts == ("box",)
    assert read({}).current_host == "box"


def test_several_groups():
    """A heterogeneous cluster keeps its groups, and each host knows its own."""
    cluster = read(
        {
            "current_host": "algo-3",
            "current_group_name": "cpus",
            "hosts": ["algo-1", "algo-2", "algo-3"],
            "instance_groups": [
                {"instance_group_name": "gpus", "instance_type": "g", "hosts": ["algo-1"]},
                {"instance_group_name": "cpus", "hosts": ["algo-2", "algo-3"]},
            ],
        }
    )
    assert cluster.group == "cpus"
    assert cluster.groups == (
        Group("gpus", "g", ("algo-1",)),
        Group("cpus", "", ("algo-2", "algo-3")),
    )


def test_natural_order():
    """algo-2 comes before algo-10, though the platform sorts by letters."""
    hosts = sorted(f"algo-{number}" for number in range(1, 13))
    assert hosts[1] == "algo-10"
    cluster = read({"current_host": "algo-2", "hosts": hosts})
    assert cluster.hosts == tuple(f"algo-{number}" for number in range(1, 13))


@given(
    hosts=st.sets(st.from_regex(r"[a-z0-9-]{1,6}", fullmatch=True), min_size=1, max_size=12),
    seed=st.randoms(use_true_random=False),
)
def test_every_host_comes_to_the_same_order(hosts: set[str], seed: random.Random):
    """Whatever order a host's file gives, and whoever reads it, the ranks are the same."""
    names = sorted(hosts)
    expected = read({"current_host": names[0], "hosts": names}).hosts
    for current in names:
        shuffled = list(names)
        seed.shuffle(shuffled)
        assert read({"current_host": current, "hosts": shuffled}).hosts == expected
    assert sorted(expected) == names


@given(st.lists(st.text(), max_size=8))
def test_any_names_can_be_sorted(hosts: list[str]):
    """No two names are incomparable, and only equal names compare equal or by their digits."""
    assert sorted(sorted(hosts, key=natural_key)) == sorted(hosts)


def test_names_that_differ_by_zeros_have_an_order(clean_env):
    """algo-1 and algo-01 are different hosts, and every process puts them in the same order."""
    code = (
        "from muster.contract.resources import read_resources\n"
        "hosts = ['a-1', 'a-01', 'a-001', 'a-0001']\n"
        "print(read_resources({'current_host': 'a-1', 'hosts': hosts}, '').hosts)"
    )
    orders = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=clean_env | {"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in range(1, 6)
    }
    assert len(orders) == 1


def test_a_name_counts_once():
    """A host that is listed twice is one host."""
    assert read({"current_host": "a", "hosts": ["b", "a", "b"]}).hosts == ("a", "b")


@pytest.mark.parametrize("hosts", [None, []], ids=["null", "empty"])
def test_no_list_is_the_current_host_alone(hosts: Any):
    """A current host without a list is a job of one."""
    assert read({"current_host": "algo-1", "hosts": hosts}).hosts == ("algo-1",)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"hosts": ["algo-1"]}, "has no current_host"),
        ({"hosts": ["algo-1"], "current_host": ""}, "has no current_host"),
        ({"hosts": ["algo-1"], "current_host": 1}, "has no current_host"),
        (
            {"hosts": ["algo-1", "algo-2"], "current_host": "algo-9"},
            r"current_host algo-9 is not in hosts \(algo-1, algo-2\)",
        ),
        ({"hosts": "algo-1", "current_host": "algo-1"}, "hosts must be a list of host names"),
        ({"hosts": ["algo-1", 2], "current_host": "algo-1"}, "hosts must be a list of host names"),
        ({"hosts": ["algo-1", ""], "current_host": "algo-1"}, "hosts must be a list of host names"),
        (
            {"current_host": "a", "instance_groups": [{"hosts": "a"}]},
            "instance_groups.hosts must be a list of host names",
        ),
    ],
)
def test_what_makes_no_cluster_is_refused(config: dict[str, Any], message: str):
    """A host list that can't be right ends with an error that names the file and the key."""
    with pytest.raises(ContractError, match=f"resourceconfig.json.* {message}"):
        read(config)


@pytest.mark.parametrize("groups", [None, {}, "x", ["x", None]])
def test_groups_of_another_shape_are_none(groups: Any):
    """Groups are optional: what can't be read as groups is as if it were not there."""
    assert read({"current_host": "a", "instance_groups": groups}).groups == ()


@pytest.mark.parametrize(
    ("named", "present", "chosen"),
    [
        ("eth0", ("eth0", "eth1", "lo"), "eth0"),
        (None, ("eth1", "lo"), "eth1"),
        (None, ("eth0", "eth1", "lo"), ""),
        (None, ("lo",), ""),
        (None, (), ""),
        ("lo", ("lo",), "lo"),
    ],
)
def test_interface_that_exists(named: str | None, present: tuple[str, ...], chosen: str):
    """The named interface is used where it exists; with none named, the only one there is."""
    assert choose(named, present) == (chosen, None)


@pytest.mark.parametrize(
    ("present", "chosen", "told"),
    [
        (("eth0", "lo"), "eth0", "using eth0"),
        (("eth0", "eth1", "lo"), "", "using the system's own choice"),
        (("lo",), "", "using the system's own choice"),
    ],
)
def test_interface_that_does_not_exist(present: tuple[str, ...], chosen: str, told: str):
    """A name that is not on this host is never used, and a note says what is instead."""
    interface, note = choose("ethwe", present)
    assert interface == chosen
    assert note is not None
    assert "ethwe" in note
    assert note.endswith(told)


@pytest.mark.parametrize("named", ["ethwe", None])
def test_of_several_interfaces_the_routed_one(named: str | None):
    """Where there is a choice, the interface that leads to the other hosts is taken."""
    chosen, note = choose(named, ("docker0", "ens5", "lo"), routed="ens5")
    assert chosen == "ens5"
    assert (note is not None) == (named is not None)
    assert note is None or note.endswith("using ens5")


@pytest.mark.parametrize("present", [("eth0", "eth1", "lo"), ("ens5", "lo"), ("lo",), ()])
def test_routes_are_looked_up_only_for_a_choice(present: tuple[str, ...]):
    """A look-up may take two seconds: an interface that is clear without one costs none."""

    def never() -> str:
        raise AssertionError

    choose_interface({"network_interface_name": "eth0"}, present, never)


@pytest.mark.parametrize(
    ("current", "hosts", "own"),
    [
        ("ALGO-1", ["algo-1", "algo-2"], "algo-1"),
        ("algo-1", ["ALGO-1", "ALGO-2"], "ALGO-1"),
        ("algo-2.", ["algo-1", "algo-2"], "algo-2"),
        ("algo-1.train.internal", ["algo-1", "algo-2"], "algo-1"),
        ("algo-1", ["algo-1.train.internal", "algo-10.train.internal"], "algo-1.train.internal"),
    ],
)
def test_another_spelling_of_the_current_host(current: str, hosts: list[str], own: str):
    """Case and domain don't make another host; that the names differ is noted."""
    cluster = read({"current_host": current, "hosts": hosts})
    assert cluster.current_host == own
    assert cluster.note == f"resourceconfig.json: current_host {current} is taken for {own}"


@pytest.mark.parametrize(
    ("current", "hosts"),
    [
        ("algo", ["algo.a", "algo.b"]),
        ("algo.c", ["algo.a", "x"]),
        ("algo-1", ["algo-10", "algo-2"]),
        ("10.0.0.1", ["10.0.0.10", "10.0.0.11"]),
    ],
)
def test_a_host_never_takes_anothers_place(current: str, hosts: list[str]):
    """A name that could mean two hosts, or another one, is an error."""
    with pytest.raises(ContractError, match=f"current_host {current} is not in hosts"):
        read({"current_host": current, "hosts": hosts})


@pytest.mark.parametrize(
    "hosts",
    [
        ["10.0.0.2", "10.0.0.9", "10.0.0.10", "10.0.1.1"],
        ["algo-1-x9y8z", "algo-2-ab12c", "algo-10-00000"],
        ["ALGO-1.Train.Internal", "ALGO-2.Train.Internal", "ALGO-10.Train.Internal"],
        ["ip-10-0-9-1.ec2.internal", "ip-10-0-119-27.ec2.internal"],
    ],
)
def test_names_of_any_pattern_are_kept_and_ordered(hosts: list[str]):
    """Addresses, full names, upper case and the suffixes of local mode stay as they are."""
    cluster = read({"current_host": hosts[-1], "hosts": sorted(hosts)})
    assert cluster.hosts == tuple(hosts)
    assert (cluster.current_host, cluster.note) == (hosts[-1], None)


@pytest.mark.parametrize("host", ["algo-2", "algo-17"])
def test_a_host_that_can_not_be_alone_is_refused(host: str):
    """A job of one host has algo-1: a list with another host alone lacks the others."""
    with pytest.raises(ContractError, match=f"lists {host} as the only host"):
        read_resources({"current_host": host, "hosts": [host]}, "x")
    assert read_resources({"current_host": "algo-1", "hosts": ["algo-1"]}, "x").hosts == ("algo-1",)
