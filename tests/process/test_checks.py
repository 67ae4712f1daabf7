"""The checks of real jobs: two hosts as processes, and `muster check` by hand."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from typing import Any

import pytest
from job_process import start_job

HOSTS = {"algo-1": "127.6.0.1", "algo-2": "127.6.0.2"}
BEGUN = "print('begun')"


@pytest.fixture
def two_hosts(tmp_path):
    """A function that runs a script on both hosts, with variables of the second's own; what is left is ended."""
    runs = []
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        "MUSTER_LAUNCHER": "plain",
        "MUSTER_PORT": str(port),
        "MUSTER_ADDRESSES": ",".join("=".join(pair) for pair in HOSTS.items()),
    }

    def start(second: dict[str, str] | None = None, groups: Any = None, **env: str):
        for host in HOSTS:
            config = tmp_path / host / "ml" / "input" / "config"
            config.mkdir(parents=True, exist_ok=True)
            resources = {"current_host": host, "hosts": list(HOSTS)}
            if groups:
                own_group = next(one for one in groups if host in one["hosts"])
                resources |= {
                    "instance_groups": groups,
                    "current_group_name": own_group["instance_group_name"],
                }
            (config / "resourceconfig.json").write_text(json.dumps(resources), encoding="utf-8")
            own = second if second and host == "algo-2" else {}
            runs.append(start_job(tmp_path / host, BEGUN, (), "train.py", shared | env | own))
        return runs

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate()


def muster(folder, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "muster", *words],
        env={**os.environ, "SAGEMAKER_BASE_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_one_table_for_all_hosts(two_hosts):
    """In the first host's log alone; each host's record has its own results."""
    first, second = two_hosts(MUSTER_CHECKS="host.shm=off")
    assert [first.finish(), second.finish()] == [0, 0], first.err + second.err
    assert len(re.findall(r"checks: \d+ on 2 hosts: ", first.err)) == 1
    assert "checks: " not in second.err
    for run in (first, second):
        found = {check["name"]: check for check in run.record["checks"]}
        assert found["host.names"]["evidence"] == "2 names resolved"
        assert "host.shm" not in found
        assert run.record["seconds"]["check"] > 0


def test_one_hosts_fail_ends_both(two_hosts, tmp_path):
    """With one reason, which names the host, and status 75; no script begins."""
    model = tmp_path / "algo-2" / "ml" / "model"
    model.parent.mkdir(parents=True)
    model.touch()
    first, second = two_hosts()
    assert [first.finish(), second.finish()] == [75, 75]
    for run in (first, second):
        assert run.failure[0] == (
            f"check host.writable on algo-2: {model} can't be written: it is no folder"
        )
        assert run.failure[1] == "muster kind=check host=algo-2 rank=- status=75"
        assert any("MUSTER_CHECKS=host.writable=warn" in line for line in run.failure)
        assert "begun" not in run.out
    assert re.search(r"FAIL +host\.writable +.* it is no folder \(algo-2\)", first.err)
    own = {check["name"]: check["status"] for check in second.record["checks"]}
    assert own["host.writable"] == "FAIL"


def test_a_user_goes_on_all_the_same(two_hosts, tmp_path):
    """A severity makes a warning of it, and the job runs."""
    (tmp_path / "algo-2" / "ml").mkdir(parents=True)
    (tmp_path / "algo-2" / "ml" / "model").touch()
    first, second = two_hosts(MUSTER_CHECKS="host.writable=warn")
    assert [first.finish(), second.finish()] == [0, 0], first.err + second.err
    assert re.search(r"WARN +host\.writable", first.err)
    assert "begun" in second.out


def test_a_host_that_looks_at_nothing(two_hosts):
    """It says so: the other one does not wait for it, and has its own results."""
    first, second = two_hosts({"MUSTER_CHECK": "off"})
    assert [first.finish(), second.finish()] == [0, 0], first.err + second.err
    assert "checks: " in first.err
    assert first.record["checks"]
    assert second.record["checks"] == []


def test_by_hand_with_fifos(tmp_path):
    """In Pipe mode none is opened, nor one that lies among files; what can be read is measured."""
    config, data = tmp_path / "input" / "config", tmp_path / "input" / "data"
    (data / "train").mkdir(parents=True)
    config.mkdir()
    (data / "train" / "part").write_bytes(os.urandom(8_000_000))
    for fifo in (data / "pipe_0", data / "train" / "fifo"):
        os.mkfifo(fifo)
    channels = {
        "train": {"TrainingInputMode": "File"},
        "pipe": {"TrainingInputMode": "Pipe"},
    }
    (config / "inputdataconfig.json").write_text(json.dumps(channels), encoding="utf-8")
    done = muster(tmp_path, "check", "--level", "full", "--json")
    assert done.returncode in (0, 75), done.stderr
    found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    storage = found["storage.channels"]
    # A file that has just been written may be in memory all the same, and is then no measure.
    assert storage["status"] in ("PASS", "UNKNOWN")
    assert storage["evidence"].startswith("train (")
    assert "pipe" not in storage["evidence"]
    assert storage["seconds"] < 30


def test_by_hand_without_anything(tmp_path):
    """`muster check` and `muster storage-plan` need no file of SageMaker's, and make none."""
    done = muster(tmp_path, "check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("checks: ")
    plan = muster(tmp_path, "storage-plan", "--dataset", "100GB", "--epoch", "30s")
    assert plan.returncode == 0, plan.stderr
    assert plan.stdout.startswith("100 GB in 30 s: 3.33 GB/s\n")
    assert list(tmp_path.iterdir()) == []


def test_this_hosts_ranks_by_hand(tmp_path, monkeypatch):
    """At the level full `muster check` has them multiply and add up, too: each is a line with its own seconds."""
    monkeypatch.setenv("MUSTER_NPROC", "2")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    done = muster(tmp_path, "check", "--level", "full", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert found["collective.burn"]["status"] == "PASS"
    assert found["collective.job"]["evidence"].startswith("4M over 2 ranks by gloo: ")
    assert found["collective.job"]["seconds"] > 0.5
    assert done.stderr == ""


def test_an_all_reduce_before_the_script(two_hosts):
    """At the level full the ranks of both hosts add something up first, where they will meet; the log and the
    records have it. A host that looks at less keeps nobody waiting."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    env = {"MUSTER_LAUNCHER": "torchrun", "MUSTER_MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    runs = two_hosts(**env, MUSTER_CHECK="full", MUSTER_NPROC="1", OMP_NUM_THREADS="1")
    assert [run.finish(120) for run in runs] == [0, 0], [run.err for run in runs]
    assert re.search(r"PASS +collective\.job +4M over 2 ranks by gloo: ", runs[0].err)
    for run in runs:
        found = {one["name"]: one["status"] for one in run.record["checks"]}
        names = [f"collective.{part}" for part in ("burn", "host", "job", "pairs")]
        # One rank a host has nothing to add up alone.
        assert [found[name] for name in names] == ["PASS", "SKIP", "PASS", "PASS"]


def test_a_first_host_that_does_not_train(two_hosts, tmp_path):
    """Its group is not named for training: it leads the others' ranks through their steps, and has none itself."""
    groups = [
        {"instance_group_name": name, "instance_type": "ml.x", "hosts": [host]}
        for name, host in (("help", "algo-1"), ("train", "algo-2"))
    ]
    told = {
        "sagemaker_distribution_instance_groups": '["train"]',
        "sagemaker_torch_distributed_enabled": "true",
    }
    for host in HOSTS:
        config = tmp_path / host / "ml" / "input" / "config"
        config.mkdir(parents=True)
        (config / "hyperparameters.json").write_text(json.dumps(told), encoding="utf-8")
    runs = two_hosts(
        groups=groups,
        MUSTER_LAUNCHER="torchrun",
        MUSTER_CHECK="full",
        MUSTER_NPROC="2",
        OMP_NUM_THREADS="1",
        GLOO_SOCKET_IFNAME="lo",
    )
    assert [run.finish(120) for run in runs] == [0, 0], [run.err for run in runs]
    assert "PASS    collective.job     4M over 2 ranks by gloo: " in runs[0].err
    first, second = ({one["name"]: one["status"] for one in run.record["checks"]} for run in runs)
    assert (first["collective.job"], second["collective.job"]) == ("SKIP", "PASS")


def test_one_host_that_looks_at_less(two_hosts):
    """Without all hosts there is no all-reduce, and nobody waits for one."""
    runs = two_hosts({"MUSTER_CHECK": "fast"}, MUSTER_CHECK="full")
    assert [run.finish() for run in runs] == [0, 0], [run.err for run in runs]
    assert "collective.job" not in runs[0].err
