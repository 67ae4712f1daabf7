"""`make bench` keeps working: small runs, and the parts that only reckon. Nothing here is about speed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from engine import FULL, IMAGE, docker
from tooling.bench import code, command, containers, failures, page, parts, peer
from tooling.bench.results import Machine, Measurement, Results, as_json
from tooling.bench.targets import TABLE, verdicts
from tooling.machine import ScriptError

SETUP = parts.Setup(
    containers.Images(IMAGE, ""),
    rounds=2,
    lines=100,
    after=100,
    hosts=70,
    idle=1,
    archive=3_000_000,
)


def results(*measurements: Measurement, **other) -> Results:
    machine = Machine(cores=2, memory_gib=16, gpus=0)
    return Results("2026-01-31", machine, {"torch": "2.13.0"}, 3, measurements, **other)


JOB = Measurement(
    "job",
    "two hosts",
    "s",
    {"bare": (4.0, 10.0, 5.0), "muster": (4.4, 12.0, 5.5), "peer": (8.0, 15.0, 20.0)},
)


def test_ratios_are_those_of_one_round():
    """A round that is slow for all spoils no ratio, and the median is of the rounds' ratios."""
    assert JOB.median("muster") == 5.5
    assert JOB.ratio("muster") == pytest.approx(1.1)
    assert JOB.ratio("peer") == pytest.approx(2.0)
    assert JOB.excess("muster") == pytest.approx(0.5)
    assert JOB.ratio("python") is None
    assert Measurement("harness", "memory", "MB", {"muster": (20.0,)}).ratio("muster") is None


def test_the_table_has_a_row_for_each_measurement():
    """Medians with their unit, ratios, and a dash for what was not measured."""
    memory = Measurement("harness", "memory", "MB", {"muster": (20.04,)})
    assert page.figures(results(JOB, memory)).splitlines()[2:] == [
        "| two hosts | — | 5.00 s | 5.50 s | 15.00 s | 1.10 | 2.00 |",
        "| memory | — | — | 20.0 MB | — | — | — |",
    ]


def test_targets_are_met_or_not():
    """A difference, a ratio or a plain figure is held against its limit; what was not measured has no verdict."""
    found = results(
        Measurement("job", "two hosts", "s", {"bare": (4.0,), "muster": (4.75,)}),
        Measurement("lines", "log", "s", {"bare": (2.0,), "muster": (2.1,)}),
        Measurement("rank", "shim", "MB", {"muster": (6.25,)}),
        Measurement("harness", "memory", "MB", {"peer": (250.0,)}),
    )
    assert [(one.title, one.measured, one.met) for one in verdicts(found)] == [
        ("two hosts", "bare + 0.75 s", False),
        ("log", "1.05 times bare", True),
        ("shim", "6.2 MB", False),
    ]
    assert "| two hosts | at most bare + 0.50 s | bare + 0.75 s | **not met** |" in page.targets(
        found
    )


def test_every_target_has_its_measurement():
    """No target waits for a figure that nobody measures."""
    titles = [key for part in parts.table(SETUP) for key in part.titles]
    assert {target.key for target in TABLE} <= set(titles)
    assert len(titles) == len(set(titles))


def test_only_the_part_between_the_markers_changes(root):
    """The real page has its markers, and keeps all else; a page without them is left alone."""
    old = (root / "docs" / "performance.md").read_text(encoding="utf-8")
    new = page.put(old, page.text(results(JOB, skipped={"part lines": "no engine"})))
    assert page.put(new, "x") == page.put(old, "x")
    assert "on 2 cores, 16 GiB, no GPU." in new
    assert "- part lines: no engine\n" in new
    with pytest.raises(ScriptError, match="markers"):
        page.put("# A page\n", "x")


def part(measure) -> parts.Part:
    return parts.Part("p", ("bare", "muster", "peer"), {"p": "a part"}, "s", measure)


def test_rounds_are_interleaved():
    """A B C, A B C: never all runs of one contender in a row."""
    order = []

    def measure(name, _):
        order.append(name)
        return {"p": float(len(order))}

    (measurement,), failed = parts.run(part(measure), SETUP)
    assert order == ["bare", "muster", "peer"] * 2
    assert measurement.samples == {"bare": (1.0, 4.0), "muster": (2.0, 5.0), "peer": (3.0, 6.0)}
    assert failed == {}


def test_who_can_not_be_run_has_no_figures():
    """A failure is told and stops nobody else; half of its rounds is no figure."""
    tries = []

    def measure(name, _):
        tries.append(name)
        if tries.count("muster") == 2 and name == "muster":
            raise ScriptError("status 1")
        return {"p": 1.0}

    (measurement,), failed = parts.run(part(measure), SETUP, absent=("peer",))
    assert measurement.samples == {"bare": (1.0, 1.0)}
    assert failed == {"muster": "status 1"}


def test_the_shims_are_found_among_a_jobs_processes():
    """The first process is the harness, and the largest shim counts; torchrun, which names the shim too, is none."""
    shim = ["python", "-I", "-m", "muster.launch.shim", "--", "python", "wait.py"]
    found = [
        {"words": ["python", "muster", "train"], "rss": 20_000_000, "pss": 9_000_000, "private": 0},
        {"words": ["python", "torchrun", "--nnodes=1", "--x", *shim], "private": 99_000_000},
        {"words": shim, "private": 5_000_000},
        {"words": shim, "private": 6_000_000},
        {"words": ["python", "wait.py"], "private": 70_000_000},
    ]
    assert parts.sizes(found, "") == {"harness": 20.0, "harness_pss": 9.0, "rank": 6.0}


def test_a_run_without_containers(root, tmp_path):
    """The command measures every contender, writes its JSON file, and leaves the page alone."""
    before = (root / "docs" / "performance.md").read_bytes()
    done = subprocess.run(
        [
            *(sys.executable, root / "scripts" / "bench", "--output", tmp_path, "--rounds", "1"),
            *("--lines", "1000", "--only", "pipe", "memory-local"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    keys = ["lines_pipe", "harness_local", "harness_pss_local", "rank_local"]
    assert [one["key"] for one in data["measurements"]] == keys
    assert set(data["measurements"][0]["samples"]) == {"python", "bare", "muster"}
    assert set(data["measurements"][0]["ratios_to_bare"]) == {"python", "muster"}
    assert all(
        value > 0
        for one in data["measurements"]
        for values in one["samples"].values()
        for value in values
    )
    assert {"date", "machine", "versions", "rounds", "skipped", "failed", "targets"} <= set(data)
    assert "| 1,000 lines into a pipe" in done.stdout
    assert (root / "docs" / "performance.md").read_bytes() == before


def test_what_is_written_is_json():
    """The derived figures stand beside the samples they come from."""
    (one,) = json.loads(json.dumps(as_json(results(JOB))))["measurements"]
    assert one["medians"]["peer"] == 15.0
    assert one["ratios_to_bare"] == {"muster": pytest.approx(1.1), "peer": pytest.approx(2.0)}


@pytest.mark.docker
def test_containers_are_measured_and_go():
    """A job on two hosts, and a log: each gives its figures, and no container or network stays."""
    job = parts.two_hosts("bare", SETUP)
    assert 0 < job["first_line"] < job["job"]
    assert parts.lines("muster", SETUP)["lines"] > 0
    for what in (("ps", "--all"), ("network", "ls")):
        named = docker(*what, "--quiet", "--filter", "name=muster-bench-").stdout
        assert named == ""


def test_code_arrives():
    """An archive comes from the server and is unpacked, and the server's own pace stands beside it."""
    found = parts.code_arrives("muster", SETUP)
    assert 0 < found["code_server"] < found["code"] < 30


@pytest.mark.skipif(not FULL, reason="200 MB, and the AWS CLI's packages: with make test-full")
def test_code_arrives_as_fast_as_by_hand():
    """200 MB take no longer than by `aws s3 cp` and tar, but for a quarter: the best of three runs each."""
    best = {
        name: min(code.seconds(name, 200_000_000)["code"] for _ in range(3))
        for name in ("bare", "muster")
    }
    assert best["muster"] <= best["bare"] * 1.25, best


def test_many_hosts_are_simulated():
    """Their roll call and their idle channel give figures."""
    found = parts.channel("muster", SETUP)
    assert 0 < found["rollcall_small"] < 30
    assert 0 < found["rollcall"] < 30
    assert found["idle_memory"] > 5
    assert 0 < found["idle_share"] < 100


@pytest.mark.docker
def test_a_failures_time_is_measured():
    """Muster ends both hosts long before the watch does."""
    assert 0 < failures.seconds_to_end("muster", SETUP.images, failures.rank_raises) < 20


def test_without_an_engine_the_parts_in_containers_are_named(monkeypatch):
    """A machine that has no Docker measures the rest, and that is no failure."""
    monkeypatch.setattr(command.engine, "missing", lambda: ["engine"])
    absences = command.prepare("any", with_peer=True)
    wanted = [one for one in parts.table(SETUP) if one.containers]
    found = command.measure(SETUP, wanted, absences)
    assert set(found.skipped) == {f"part {one.name}" for one in wanted}
    assert len(wanted) == 8
    assert found.failed == {}


def test_the_peer_is_pinned():
    """The page names exactly what is installed in the peer's image."""
    assert list(peer.pins()) == ["sagemaker-training", "sagemaker-pytorch-training"]
