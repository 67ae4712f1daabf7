import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.check import registry
from muster.check.compare import JUDGES, Hosts, compare, networks
from muster.check.finding import Result
from muster.check.reached import latency_lines
from muster.check.told import Told, understood

GOOD = Told(
    group="workers",
    versions={"torch": "2.13.0", "NCCL": "2.30.7", "CUDA": "13.0", "plugin": "1.20.0"},
    gpus=("NVIDIA H200",) * 8,
    efa=16,
    name="host boot",
)


def job(count: int = 3, **changed) -> dict[str, Told]:
    """Hosts that are alike but for what is given of some."""
    told = {}
    for number in range(1, count + 1):
        change = changed.get(f"algo{number}", {})
        told[f"algo-{number}"] = dataclasses.replace(GOOD, name=f"host{number} boot", **change)
    return told


def judged(name: str, told, offsets=None) -> tuple[str, Result]:
    offsets = offsets if offsets is not None else dict.fromkeys(told, 0.0)
    ((host, result),) = compare(Hosts(told, offsets), [name])
    return host, result


def other(**versions: str) -> dict:
    return {"versions": {**GOOD.versions, **versions}}


def test_the_registry_and_the_judges():
    """Every check that compares has its judge, and no judge is without a row."""
    assert {check.name for check in registry.CHECKS if check.together} == set(JUDGES)


@pytest.mark.parametrize("name", sorted(JUDGES))
def test_one_host_has_nobody_to_compare_with(name):
    """It is no PASS."""
    assert judged(name, job(1))[1].status == "SKIP"


def test_alike():
    """What is the same everywhere passes, with a figure."""
    names = ["software.same", "gpu.same", "efa.same", "net.clocks", "net.names"]
    told = job()
    results = dict(zip(names, compare(Hosts(told, dict.fromkeys(told, 0.0)), names), strict=True))
    assert {result.status for _, result in results.values()} == {"PASS"}
    assert results["gpu.same"][1].evidence == "8 GPUs a host: NVIDIA H200"


@pytest.mark.parametrize("name", ["torch", "NCCL", "plugin"])
def test_versions_that_must_not_differ(name):
    """The host that differs is named, and the job ends."""
    host, found = judged("software.same", job(algo3=other(**{name: "1.0"})))
    assert (host, found.status) == ("algo-3", "FAIL")
    assert found.evidence == f"{name}: 1.0 on algo-3, {GOOD.versions[name]} on the 2 others"


def test_other_versions():
    """They are a warning, also where a host has none."""
    host, found = judged("software.same", job(algo2=other(driver="580.1", CUDA="12.9")))
    assert (host, found.status) == ("algo-2", "WARN")
    assert found.evidence == (
        "CUDA: 12.9 on algo-2, 13.0 on the 2 others; driver: 580.1 on algo-2, none on the 2 others"
    )


def test_drivers_of_other_instances():
    """A driver is the instance's own: only hosts of one group must have the same."""
    apart = {"group": "readers", **other(driver="580.1")}
    assert judged("software.same", job(algo3=apart))[1].status == "PASS"
    assert judged("software.same", job(algo3=other(driver="580.1")))[1].status == "WARN"


def test_two_hosts_are_both_named():
    """Neither is known to be right."""
    host, found = judged("software.same", job(2, algo2=other(torch="2.12.0")))
    assert (host, found.status) == ("algo-1", "FAIL")
    assert found.evidence == "torch: 2.13.0 on algo-1, 2.12.0 on algo-2"


def test_the_grave_one_is_first():
    """It names the host that ends the job."""
    host, found = judged(
        "software.same", job(4, algo2=other(CUDA="12.9"), algo4=other(torch="2.12.0"))
    )
    assert (host, found.status) == ("algo-4", "FAIL")
    assert found.evidence.startswith("torch: ")


def test_no_version_is_known():
    """Nothing was compared."""
    assert judged("software.same", dict.fromkeys(("a", "b"), Told()))[1].status == "SKIP"


def test_gpus():
    """A lost one ends the job, another kind is a warning, groups may differ, and none is skipped."""
    host, found = judged("gpu.same", job(algo2={"gpus": GOOD.gpus[1:]}))
    assert (host, found.status) == ("algo-2", "FAIL")
    assert found.evidence == "7 GPUs on algo-2, 8 GPUs on the 2 others"
    host, found = judged("gpu.same", job(algo3={"gpus": ("NVIDIA H100",) * 8}))
    assert (host, found.status) == ("algo-3", "WARN")
    assert found.evidence == "NVIDIA H100 on algo-3, NVIDIA H200 on the 2 others"
    apart = job(2, algo2={"gpus": ("NVIDIA T4",), "group": "readers"})
    assert judged("gpu.same", apart)[1].evidence == "1 or 8 GPUs a host: NVIDIA H200, NVIDIA T4"
    none = job(2, algo1={"gpus": ()}, algo2={"gpus": ()})
    assert judged("gpu.same", none)[1].status == "SKIP"


def test_gpus_without_names():
    """The driver's files are not in every container: the number is compared all the same."""
    found = judged("gpu.same", job(2, algo1={"gpus": ("",)}, algo2={"gpus": ("",)}))[1]
    assert (found.status, found.evidence) == ("PASS", "1 GPUs a host: kind unknown")


def test_efa():
    """A host with fewer devices ends the job; none anywhere is skipped."""
    host, found = judged("efa.same", job(algo1={"efa": 15}))
    assert (host, found.status) == ("algo-1", "FAIL")
    assert found.evidence == "15 EFA devices on algo-1, 16 EFA devices on the 2 others"
    assert judged("efa.same", job(2, algo1={"efa": 0}, algo2={"efa": 0}))[1].status == "SKIP"


@pytest.mark.parametrize(
    ("offsets", "status", "host", "evidence"),
    [
        ([0, 0.4, -0.6], "PASS", "algo-1", "the clocks differ by 1.000 s at most"),
        ([0, 0.1, 5], "WARN", "algo-3", "algo-3 is 4.9 s ahead"),
        ([0, 7, 7], "WARN", "algo-1", "algo-1 is 7.0 s behind"),
        ([0, 7], "WARN", "algo-1", "algo-1 and algo-2 differ by 7.0 s"),
        ([], "UNKNOWN", "algo-1", "the clocks were not compared"),
    ],
    ids=["well", "one", "the leader", "two hosts", "unknown"],
)
def test_clocks(offsets, status, host, evidence):
    """Above a second the host is named that differs from most; of two, both."""
    told = job(max(2, len(offsets)))
    known = {f"algo-{number + 1}": float(offset) for number, offset in enumerate(offsets)}
    where, found = judged("net.clocks", told, known)
    assert (found.status, where, found.evidence) == (status, host, evidence)


def test_hosts_that_nccl_takes_for_one():
    """The same name and the same boot; on CPU hosts it does not matter."""
    same = {"algo2": {}, "algo3": {}}
    told = {host: dataclasses.replace(each, name="aws boot") for host, each in job(**same).items()}
    told["algo-1"] = dataclasses.replace(GOOD, name="aws other")
    host, found = judged("net.names", told)
    assert (host, found.status) == ("algo-2", "WARN")
    assert found.evidence == "algo-2, algo-3 are one host to NCCL"
    plain = {host: dataclasses.replace(each, gpus=()) for host, each in told.items()}
    assert judged("net.names", plain)[1].status == "SKIP"


def test_a_host_that_there_is_not():
    """What one host says of another may be wrong: the result belongs to one of the job's all the same."""
    told = Told.unpack(
        {
            "group": "a",
            "versions": {},
            "gpus": [],
            "efa": 0,
            "name": "",
            "network": {
                "interface": "eth0",
                "address": "10.0.0.1",
                "mtu": 1500,
                "reached": {},
                "failed": {"algo-9": ["10.0.0.9", 1, "no"]},
                "callers": {},
            },
        }
    )
    host, found = judged("net.reach", {"algo-1": told, "algo-2": Told()})
    assert (host, found.status) == ("algo-1", "FAIL")


ANY = st.none() | st.integers() | st.floats() | st.text(max_size=3)
PEERS = st.sampled_from(["algo-1", "algo-2", "algo-3", "algo-9"])
NETWORK = st.fixed_dictionaries(
    {
        "interface": ANY,
        "address": st.sampled_from(["10.0.0.1", "10.0.0.2", ""]) | ANY,
        "mtu": st.sampled_from([0, 1500, 9001]) | ANY,
    },
    optional={
        "reached": st.dictionaries(PEERS, st.floats() | ANY, max_size=3),
        "failed": st.dictionaries(PEERS, st.tuples(ANY, st.integers() | ANY, ANY), max_size=3),
        "callers": st.dictionaries(PEERS, ANY, max_size=3),
        "trouble": ANY,
    },
)
TOLD = st.fixed_dictionaries(
    {
        "group": ANY,
        "versions": st.dictionaries(st.sampled_from(["torch", "CUDA", "x"]), ANY, max_size=3),
        "gpus": st.lists(ANY, max_size=3),
        "efa": st.integers() | ANY,
        "name": ANY,
        "network": st.none() | NETWORK,
    }
)


@given(st.lists(TOLD | ANY, min_size=1, max_size=3), st.lists(st.floats(), max_size=3))
def test_whatever_hosts_tell(told, clocks):
    """Each check has one result, of a host of the job, and nothing breaks the first host."""
    data = json.loads(json.dumps({f"algo-{place + 1}": each for place, each in enumerate(told)}))
    offsets = {f"algo-{place + 1}": clock for place, clock in enumerate(clocks)}
    known = understood(data)
    if not known:
        return
    results = compare(Hosts(known, offsets), list(JUDGES))
    assert [result.name for _, result in results] == list(JUDGES)
    assert {host for host, _ in results} <= set(known)
    assert all(result.evidence for _, result in results)
    assert all(result.remedy for _, result in results if result.status in ("WARN", "FAIL"))
    latency_lines(networks(known))
