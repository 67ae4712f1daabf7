"""What holds under every launcher: each rank is its own host's, and nobody shows or opens what is private."""

from __future__ import annotations

import json
import re

import pytest
from cluster import Cluster, Job
from engine import HOROVOD_IMAGE, IMAGE, MPI_IMAGE, docker
from ranks import FEW_CORES, TELL, WAIT, make_job, told

pytestmark = pytest.mark.docker

SECRET = "canary-4711"
LAUNCHERS = {
    "torchrun": (IMAGE, {}),
    "plain": (IMAGE, {}),
    "mpirun": (MPI_IMAGE, {}),
    "horovodrun-gloo": (HOROVOD_IMAGE, {"MUSTER_HOROVOD_CONTROLLER": "gloo"}),
    "horovodrun-mpi": (HOROVOD_IMAGE, {"MUSTER_HOROVOD_CONTROLLER": "mpi"}),
}
LOOK = (
    "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo; cat /proc/net/tcp /proc/net/tcp6;"
    " which ssh sshd || echo no-ssh"
)
CHANNEL, SSH = 7770, 22
SECRETS = {
    "MY_SECRET_KEY": SECRET,
    "MUSTER_JOB_SECRET": f"{SECRET}-job",
    "MUSTER_ARGS": "none",  # a script's arguments are on its command line, for it to read
}


@pytest.fixture
def cluster(launcher, tmp_path, code):
    """Two hosts that differ: three ranks in all, two on the first, one processor and a channel more on the second."""
    image, environment = LAUNCHERS[launcher]
    chosen = {"MUSTER_LAUNCHER": launcher.partition("-")[0], **FEW_CORES, **SECRETS, **environment}
    job = make_job(
        *(image, tmp_path, code, TELL + WAIT),
        environment=chosen,
        hyperparameters={"api_token": f"{SECRET}-hp"},
    )
    with Cluster(job) as cluster:
        yield cluster


def start(cluster: Cluster, job: Job) -> None:
    first, second = cluster.hosts
    # Of one group hosts are equal, or one of them has lost a GPU: the job is refused.
    groups = [
        {"instance_group_name": name, "instance_type": "ml.c5.xlarge", "hosts": [host.name]}
        for name, host in (("big", first), ("small", second))
    ]
    first.rewrite("resourceconfig", current_group_name="big", instance_groups=groups)
    second.rewrite("resourceconfig", current_group_name="small", instance_groups=groups)
    config = second.folder / "input" / "config" / "inputdataconfig.json"
    channels = json.loads(config.read_text(encoding="utf-8"))
    second.rewrite("inputdataconfig", **{"only-here": channels["code"]})
    cluster.start(first)
    job.options = ("--cpus", "1")
    job.environment = {**job.environment, "MUSTER_NPROC": "1"}
    cluster.start(second)
    for host in cluster.hosts:
        host.wait_for_file("started")


def assert_nothing_is_shown(cluster: Cluster) -> None:
    """No secret on a command line, no ssh, and no port but the leader's."""
    for host in cluster.hosts:
        seen = docker("exec", host.container, "bash", "-c", LOOK).stdout
        assert "train.py" in seen
        assert SECRET not in seen
        assert "no-ssh" in seen
        listening = {
            int(match, 16)
            for match in re.findall(r": [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:0000 0A", seen)
        }
        assert SSH not in listening
        assert (CHANNEL in listening) == (host is cluster.hosts[0])


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_case_007_ranks_of_hosts_that_differ(launcher, cluster):
    """A rank's place, and its host's processors, channels and secrets, whoever started it."""
    start(cluster, cluster.job)
    assert_nothing_is_shown(cluster)
    for host in cluster.hosts:
        (host.model / "go").touch()
    said = "".join(host.output for host in cluster.hosts)
    assert [host.wait() for host in cluster.hosts] == [0, 0], said
    ranks = told(cluster)
    per_host = [1, 1] if launcher == "plain" else [2, 1]
    owners = ["algo-1"] * per_host[0] + ["algo-2"]
    assert [rank["SM_CURRENT_HOST"] for rank in ranks] == owners
    assert [rank["SM_CURRENT_HOST_RANK"] for rank in ranks] == ["0"] * per_host[0] + ["1"]
    assert ranks[-1]["SM_NUM_CPUS"] == "1"
    assert ["only-here" in rank["SM_CHANNELS"] for rank in ranks] == [
        name == "algo-2" for name in owners
    ]
    assert {rank["MY_SECRET_KEY"] for rank in ranks} == {SECRET}
    assert {rank["PATH"].partition(":")[0] for rank in ranks} == {"/opt/venv/bin"}
    assert {rank["cwd"] for rank in ranks} == {"/opt/ml/input/data/code"}
    if launcher == "plain":
        return
    places = [
        tuple(rank[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"))
        for rank in ranks
    ]
    assert places == [("0", "0", "3", "2"), ("1", "1", "3", "2"), ("2", "0", "3", "1")]
    assert {(rank["MASTER_ADDR"], rank["MASTER_PORT"]) for rank in ranks} == {("algo-1", "7777")}
