"""The checks of the host on real containers: what Docker can make wrong is found, and named."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cluster import Cluster, Host, Job
from engine import IMAGE, docker

pytestmark = pytest.mark.docker

PLAIN = {"MUSTER_LAUNCHER": "plain"}
BEGUN = "print('begun')"


def checks(host) -> dict[str, dict[str, str]]:
    """A host's results by name, from its record."""
    return {check["name"]: check for check in host.record["checks"]}


@pytest.mark.parametrize(("severity", "statuses"), [("", [0, 0]), ("host.shm=fail", [75, 75])])
def test_case_079_64_mib_under_a_need_of_1_gib(severity, statuses, tmp_path, code):
    """Docker's own /dev/shm: one line for both hosts with what gives more; as a FAIL it ends both."""
    environment = PLAIN | ({"MUSTER_CHECKS": severity} if severity else {})
    job = Job(tmp_path, code(BEGUN), "train.py", hosts=2, environment=environment)
    with Cluster(job) as cluster:
        assert cluster.run() == statuses, cluster.hosts[0].output
        first, second = cluster.hosts
        seen = "/dev/shm has 64 MiB, 1 rank may need 1.0 GiB"
        status = "FAIL" if severity else "WARN"
        assert re.search(rf"{status} +host\.shm +{seen} \(algo-1, algo-2\)", first.output)
        assert first.output.count("--shm-size=1g") >= 1
        assert seen not in second.output or severity
        assert checks(second)["host.shm"]["status"] == status
        assert ("begun" in first.output) != bool(severity)
        if severity:
            assert first.failure == second.failure
            assert first.failure.startswith(f"check host.shm on algo-1: {seen}")


class ClosedModel(Cluster):
    """Its model folder is mounted read-only."""

    def _volumes(self, host: Host) -> list[tuple[Path, str]]:
        closed = "/opt/ml/model"
        return [
            (source, f"{target}:ro" if target == closed else target)
            for source, target in super()._volumes(host)
        ]


def test_a_read_only_model_folder(tmp_path, code):
    """The job would be paid for in vain: it ends before a rank begins, and says why."""
    with ClosedModel(Job(tmp_path, code(BEGUN), "train.py", environment=PLAIN)) as cluster:
        (host,) = cluster.hosts
        assert cluster.run() == [75], host.output
        first, second, *rest = host.failure.splitlines()
        assert first == (
            "check host.writable on algo-1: /opt/ml/model can't be written: Read-only file system"
        )
        assert second == "muster kind=check host=algo-1 rank=- status=75"
        assert any("Mount /opt/ml/model writable" in line for line in rest)
        assert "begun" not in host.output


def test_a_full_tmp(tmp_path, code):
    """No byte free for temporary files is a FAIL of its own, with the figures."""
    job = Job(
        tmp_path,
        code(BEGUN),
        "train.py",
        environment=PLAIN,
        options=("--tmpfs", "/tmp:size=1m"),
        command=("sh", "-c", "head -c 2000000 /dev/zero > /tmp/fill; exec muster check"),
    )
    with Cluster(job) as cluster:
        (host,) = cluster.hosts
        assert cluster.run() == [75], host.output
        assert re.search(r"FAIL +host\.disk .*/tmp: 0 B free of 1 MiB \(0%\)", host.output)
        assert re.search(
            r"WARN +host\.writable .*/tmp can't be written: No space left", host.output
        )


def test_a_cgroup_is_seen():
    """What `docker run` allows counts, not what the machine has."""
    limits = ("--memory", "300m", "--cpus", "1", "--ulimit", "nofile=256:256")
    words = ("--rm", *limits, "--env", "MUSTER_NPROC=2", IMAGE, "check", "--json")
    done = docker("run", *words, check=False)
    assert done.returncode == 0, done.stderr
    found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert [found[f"host.{name}"]["status"] for name in ("cpus", "memory", "limits")] == [
        "WARN"
    ] * 3
    assert found["host.cpus"]["evidence"].startswith("2 ranks on 1 processor")
    assert "of 300 MiB (the cgroup)" in found["host.memory"]["evidence"]
    assert "--ulimit nofile=65536" in found["host.limits"]["remedy"]


def test_names_of_all_hosts_are_looked_up(tmp_path, code):
    """By Docker's name server, on every host."""
    job = Job(tmp_path, code(BEGUN), "train.py", hosts=3, environment=PLAIN)
    with Cluster(job) as cluster:
        assert cluster.run() == [0, 0, 0], cluster.hosts[0].output
        for host in cluster.hosts:
            assert checks(host)["host.names"]["evidence"] == "3 names resolved"


def test_by_hand_without_a_job():
    """`docker run IMAGE check` prints every check with its seconds; `storage-plan` plans."""
    done = docker("run", "--rm", "--network", "none", "--shm-size=2g", IMAGE, "check")
    assert re.search(r"PASS +host\.shm +\d+\.\d\d s  /dev/shm has 2\.0 GiB", done.stdout)
    plan = docker("run", "--rm", IMAGE, "storage-plan", "--dataset", "100GB", "--epoch", "30s")
    assert plan.stdout.startswith("100 GB in 30 s: 3.33 GB/s\n")
