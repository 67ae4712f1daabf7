import json
import socket
import sys
import time
from dataclasses import replace

import pytest

from muster.check import Ranks, after_plan, collective
from muster.errors import CheckError
from muster.model import Plan


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Alone:
    """The meeting of a job of one host; `others` is what more hosts tell last."""

    def __init__(self, host: str = "algo-1", others=None) -> None:
        self.host, self.others, self.topics = host, others or {}, []

    def during(self, work):
        return work()

    def consult(self, topic, data, judge):
        self.topics.append(topic)
        more = self.others if len(self.topics) > 1 else {}
        return json.loads(json.dumps(judge({**more, self.host: data})))


@pytest.fixture
def plan() -> Plan:
    """Return what a host of a job runs."""
    return Plan(
        launcher="torchrun",
        host="algo-1",
        hosts=("algo-1",),
        node_rank=0,
        nproc=2,
        world_size=2,
        master_addr="127.0.0.1",
        master_port=free_port(),
        argv=(),
        cwd="/",
        env={},
        rank_env={},
    )


@pytest.fixture
def python(tmp_path):
    """Return a function that makes a Python whose benchmark is a few lines."""

    def make(text: str) -> str:
        path = tmp_path / "python"
        path.write_text(
            f"#!{sys.executable}\nimport os, sys, time\nrank = int(os.environ['RANK'])\n{text}\n"
        )
        path.chmod(0o755)
        return str(path)

    return make


def look(plan: Plan, python: str, meeting=None, **severities: str):
    named = {name.replace("_", "."): value for name, value in severities.items()}
    ranks = Ranks(python, 0, 2, 2, gpus=False)
    return after_plan(plan, ranks, {"PATH": "/usr/bin:/bin"}, meeting or Alone(), named)


def test_two_ranks_meet_and_add_up(plan, capfd):
    """The real benchmark runs over gloo, and the log says what it has measured."""
    found = look(plan, sys.executable)
    assert found.status == "PASS", found.evidence
    assert found.evidence.startswith("4M over 2 ranks by gloo: ")
    assert "PASS    collective.job" in capfd.readouterr().err


def test_a_rank_that_fails(plan, python):
    """Its own last words are the evidence, at once, though the other rank still waits."""
    began = time.monotonic()
    with pytest.raises(
        CheckError, match=r"collective\.job on algo-1: rank 1: no such device"
    ) as error:
        look(plan, python("print('no such device') or sys.exit(3) if rank else time.sleep(50)"))
    assert time.monotonic() - began < 10
    assert "MUSTER_CHECKS=collective.job=warn" in error.value.remedy


def test_ranks_that_never_meet(plan, python, monkeypatch):
    """They cost their time and no more, and nothing of them is left."""
    monkeypatch.setattr(collective, "_LIMIT_S", 0.5)
    with pytest.raises(CheckError, match="an all-reduce over 2 ranks has not ended within 60 s"):
        look(plan, python("time.sleep(50)"))


def test_a_warning_goes_on(plan, python):
    """As the user wants it: the result is a WARN."""
    found = look(plan, python("sys.exit(3)"), collective_job="warn")
    assert found.status == "FAIL"


@pytest.mark.parametrize(
    ("text", "severities", "why"),
    [
        (
            "sys.exit(\"No module named 'muster_perf'\")",
            {},
            "the script's Python has no muster_perf",
        ),
        ("sys.exit(9)", {"collective_job": "off"}, "it is switched off"),
    ],
)
def test_nothing_to_run(plan, python, text, severities, why):
    """A Python without the benchmark, or a user who wants none, is no failure."""
    found = look(plan, python(text), **severities)
    assert (found.status, found.evidence) == ("SKIP", why)


def test_hosts_that_train_by_themselves(plan, python):
    """There is no world to add up; a host outside of the training groups only looks on."""
    assert look(replace(plan, launcher="plain"), python("sys.exit(9)")).status == "SKIP"
    outside = replace(plan, launcher="plain", rank_env={"MUSTER_IN_WORLD": "0"})
    assert look(outside, python("sys.exit(9)")).evidence == "this host's group does not train"


def test_who_has_failed_first_ends_the_job(plan, python):
    """The others have only lost their connection, or waited in vain."""
    early = ["collective.job", "FAIL", "rank 7: CUDA error", "", 0.001]
    meeting = Alone(others={"algo-2": early})
    assert look(plan, python("sys.exit(3)"), meeting).status == "FAIL"
    late = [
        "collective.job",
        "FAIL",
        "an all-reduce over 2 ranks has not ended within 60 s",
        "",
        0.001,
    ]
    with pytest.raises(CheckError, match="algo-1"):
        look(plan, python("sys.exit(3)"), Alone(others={"algo-0": late}))
