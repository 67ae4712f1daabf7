import json
from dataclasses import replace

import pytest

from muster.check.collective.judging import (
    of_beside,
    of_burns,
    of_hosts,
    of_job,
    of_pair,
    reduced,
    with_beside,
)
from muster.check.collective.pairs import ON_CPUS, ON_GPUS, Limits
from muster.check.collective.worlds import IDLE, Told
from muster.check.finding import Finding

GIB = 2**30
KNOWN = {
    "size": GIB,
    "expected": 365.0,
    "warn": 273.75,
    "floor": 182.5,
    "kind": "measured",
    "source": "ADT",
    "date": "2026-02",
    "reason": "",
}


def told(busbw: float = 300.0, ms: float = 5.0, size: int = GIB, **known) -> Told:
    figures = {"rows": [(size, ms, busbw)], "backend": "nccl", "world": 16}
    figures["expected"] = KNOWN | known
    return Told("ok", "", figures, 1.0)


P5, G5 = ("ml.p5.48xlarge", 8), ("ml.g5.xlarge", 1)


def burnt(*ranks) -> Told:
    return Told("ok", "", {"ranks": ranks}, 1.0)


@pytest.mark.parametrize(
    ("busbw", "status", "said"),
    [
        (360.0, "PASS", "1024M over 16 ranks by nccl: 5.0 ms, busbw 360.00 GB/s; expected 365 GB/s (measured: ADT, 2026-02)"),
        (273.0, "WARN", "and 273.8 is worth a look"),
        (41.0, "FAIL", "and below 182.5 something is wrong"),
    ],
)  # fmt: skip
def test_a_bandwidth_against_what_is_known(busbw, status, said):
    """The verdict has the number, its kind, its source and its date."""
    found = of_job({"algo-1": told(busbw), "algo-2": Told("ok")}, 16, table=True)
    assert found["algo-1"].status == status
    assert said in found["algo-1"].evidence
    assert (found["algo-2"].status, found["algo-2"].evidence) == (
        "PASS",
        "16 ranks have had what they should",
    )


@pytest.mark.parametrize(
    "known", [{"expected": None, "reason": "no number is public"}, {"size": 2 * GIB}]
)
def test_a_bandwidth_of_which_nothing_is_known(known):
    """Is told, and not judged: memory may have made the sweep end before the size that is known."""
    found = of_job({"algo-1": told(0.1, **known)}, 16, table=True)["algo-1"]
    assert found.status == "PASS"
    assert "not judged: no number is " in found.evidence


def test_public_numbers_are_about_whole_hosts_that_are_alike():
    """Fewer ranks than GPUs reach less; a run of the job's own was one of as many."""
    found = of_job({"algo-1": told(0.1)}, 2, table=False)["algo-1"]
    assert (found.status, found.evidence.partition("not judged: ")[2]) == (
        "PASS",
        "public numbers are about all GPUs of hosts that are alike",
    )
    assert of_job({"algo-1": told(0.1, kind="recorded")}, 2)["algo-1"].status == "FAIL"


def test_a_named_run_of_something_else():
    """It was of no use, which is no PASS; one that only lay in the checkpoints is not missed."""
    unfit = told(300.0, expected=None, kind="unknown", reason="/x recorded 2 hosts")
    assert of_job({"algo-1": unfit}, 16, named=True)["algo-1"].status == "WARN"
    assert of_job({"algo-1": unfit}, 16)["algo-1"].status == "PASS"


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("rank 1: burn: rank 1: 2 of 9 products differ from its first", "computes wrongly"),
        ("rank 1: no such device", "by hand"),
    ],
)
def test_a_burn_that_fails(said, remedy):
    """Only what has been computed wrongly is told as that."""
    found = of_burns({"algo-1": Told("failed", said)}, ON_GPUS, {})["algo-1"]
    assert found.status == "FAIL"
    assert remedy in found.remedy


def test_a_slow_run_without_gpus():
    """Has nothing to do with EFA."""
    slow = told(1.0, kind="recorded")
    assert "EFA" in of_job({"algo-1": slow}, 16)["algo-1"].remedy
    on_cpus = replace(slow, figures=slow.figures | {"backend": "gloo"})
    assert "EFA" not in of_job({"algo-1": on_cpus}, 16)["algo-1"].remedy


def test_a_baseline_that_cant_be_read():
    """It could not be held against it, which is no PASS: the file is named."""
    known = {"expected": None, "kind": "unreadable", "reason": "/x is no JSON of a run"}
    found = of_job({"algo-1": told(300.0, **known)}, 16)["algo-1"]
    assert found.status == "WARN"
    assert "/x is no JSON of a run" in found.evidence
    assert found.remedy


@pytest.mark.parametrize(
    ("one", "status"),
    [
        (Told("failed", "rank 3: wrong values"), "FAIL"),
        (Told("late", "16 ranks have not ended within 60 s"), "FAIL"),
        (Told("absent", "no muster_perf"), "UNKNOWN"),
        (Told("broken", "the benchmark can't be started"), "UNKNOWN"),
        (IDLE, "SKIP"),
        (Told.unpack(["nonsense"]), "SKIP"),
    ],
)
def test_what_ranks_have_come_to(one, status):
    """A wrong value, a failure and a silence each end the job; what could not be looked at is no PASS."""
    assert of_job({"algo-1": one}, 16)["algo-1"].status == status


@pytest.mark.parametrize(
    ("ms", "limits", "status"),
    [
        (5.5, ON_GPUS, "PASS"),
        (6.0, ON_GPUS, "WARN"),
        (7.5, ON_GPUS, "FAIL"),
        (14.0, ON_CPUS, "PASS"),
        (500.0, ON_CPUS, "WARN"),
    ],
)
def test_a_host_that_is_slow_by_itself(ms, limits, status):
    """Against the hosts' median."""
    hosts = {"algo-1": told(), "algo-2": told(ms=ms), "algo-3": told()}
    found = of_hosts(hosts, limits, dict.fromkeys(hosts, P5))
    assert [found[host].status for host in hosts] == ["PASS", status, "PASS"]


def test_only_hosts_of_a_kind_are_compared():
    """Eight ranks take longer than one, and GPUs of other models multiply at their own rate; no time is no measure."""
    kinds = {"algo-1": P5, "algo-2": P5, "algo-3": G5}
    times = {"algo-1": told(ms=50.0), "algo-2": told(ms=50.0), "algo-3": told(ms=1.0)}
    assert {each.status for each in of_hosts(times, ON_GPUS, kinds).values()} == {"PASS"}
    burns = {"algo-1": burnt((2.0, 7)), "algo-2": burnt((2.0, 7)), "algo-3": burnt((9.0, 8))}
    assert {each.status for each in of_burns(burns, ON_GPUS, kinds).values()} == {"PASS"}
    none = {"algo-1": told(ms=0.0), "algo-2": told(ms=0.0)}
    assert {each.status for each in of_hosts(none, ON_GPUS, {}).values()} == {"PASS"}


def test_burns_that_agree():
    """The evidence has how long a product took."""
    found = of_burns(
        {"algo-1": burnt((2.0, 7), (2.1, 7)), "algo-2": burnt((2.0, 7), (2.1, 7))}, ON_GPUS, {}
    )
    assert found["algo-1"].evidence == "2 ranks, 2.00 to 2.10 ms a product"
    assert {each.status for each in found.values()} == {"PASS"}


@pytest.mark.parametrize(("ms", "status"), [(2.1, "PASS"), (2.4, "WARN"), (3.2, "FAIL")])
def test_a_gpu_that_lags(ms, status):
    """From 1.1 times the median of all ranks of the job it is worth a look, from 1.5 times it ends it."""
    hosts = {"algo-1": burnt((2.0, 7), (2.0, 7)), "algo-2": burnt((2.0, 7), (ms, 7))}
    found = of_burns(hosts, Limits(1.1, 1.5), {})
    assert [found[host].status for host in hosts] == ["PASS", status]
    if status != "PASS":
        assert found["algo-2"].evidence.startswith(f"rank 1: {ms:.2f} ms, ")


def test_a_host_whose_products_are_all_wrong():
    """One GPU a host: only other hosts' can tell. Of two that differ nobody can be named."""
    three = {f"algo-{i}": burnt((2.0, digest)) for i, digest in enumerate((7, 8, 7))}
    found = of_burns(three, ON_GPUS, {})
    assert [found[host].status for host in three] == ["PASS", "FAIL", "PASS"]
    assert "not those of most ranks" in found["algo-1"].evidence
    two = {"algo-0": burnt((2.0, 7)), "algo-1": burnt((2.0, 8))}
    assert {each.status for each in of_burns(two, ON_GPUS, {}).values()} == {"FAIL"}


def test_what_a_pair_has_shown():
    """The time where rank 0 is; else why there is none, of the one that knows most."""
    pair = ("algo-1", "algo-2")
    assert of_pair(pair, {"algo-1": told(ms=7.0), "algo-2": Told("ok")}).ms == 7.0
    late, failed = Told("late", "not ended", {}, 60.0), Told("failed", "rank 1: wrong", {}, 9.0)
    assert of_pair(pair, {"algo-1": late, "algo-2": failed}).error == "rank 1: wrong"
    assert of_pair(pair, {"algo-1": Told("ok"), "algo-2": Told("ok")}).error == "it told nothing"
    assert of_pair(pair, {"algo-1": told()}).error == "it was not tried"
    assert of_pair(pair, {"algo-1": told(ms=0.0), "algo-2": Told("ok")}).error == "it told nothing"


def test_what_is_found_beside():
    """Each host's own finding of each check, but for checks that are off; hosts that have none are left out."""
    socket = Finding("FAIL", "NCCL uses Socket, not EFA", "look")
    one = with_beside(Told("ok", "", {"rows": []}), {"efa.nccl": socket, "efa.errors": socket})
    assert one.figures["rows"] == []
    told = {"algo-1": Told.unpack(json.loads(json.dumps(one.pack()))), "algo-2": IDLE}
    assert of_beside(told, {"efa.errors": "off"}) == {"efa.nccl": {"algo-1": socket}}


def test_what_travels():
    """Neither NCCL's log nor a whole JSON file does; a file that makes no sense is left out."""
    result = {
        "results": [{"size": 64, "in_place": {"time": 1500.0, "bus_bw": 2.0}}],
        "muster": {"backend": "gloo", "world": 2, "expected": KNOWN},
        "config": {"devices": ["many"]},
    }
    one = reduced(Told("ok", "", {"result": result, "log": "NCCL INFO"}))
    rows = [(64, 1.5, 2.0)]
    assert one.figures == {"rows": rows, "backend": "gloo", "world": 2, "expected": KNOWN}
    assert reduced(Told("ok", "", {"result": {"results": 3}})).figures == {}
    burn = {"side": 512, "ranks": [{"milliseconds": 5.0, "digest": 7, "products": 3, "wrong": 0}]}
    assert reduced(Told("ok", "", {"result": burn})).figures == {"ranks": [(5.0, 7)]}
