"""horovodrun across containers, without SSH, by both of its controllers."""

from __future__ import annotations

import json
import re

import pytest
from cluster import Cluster, Job
from engine import HOROVOD_IMAGE, docker

pytestmark = pytest.mark.docker

# MPI waits in circles, and here several hosts share the cores.
FEW_CORES = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMP_NUM_THREADS": "1"}
TELL = """
    import json, os, time
    import horovod.torch as hvd, torch
    hvd.init()
    total = int(hvd.allreduce(torch.ones(1), op=hvd.Sum))
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "SM_CURRENT_HOST")
    names += ("SM_NUM_CPUS", "MY_SECRET_KEY", "PATH")
    facts = {name: os.environ.get(name) for name in names}
    same = (hvd.rank(), hvd.local_rank(), hvd.size()) == tuple(int(facts[n]) for n in names[:3])
    print("told " + json.dumps(facts | {"total": total, "same": same}), flush=True)
    from pathlib import Path
    (Path(os.environ["SM_MODEL_DIR"]) / "started").touch()
    while os.environ.get("WAIT") and not (Path(os.environ["SM_MODEL_DIR"]) / "go").exists():
        time.sleep(0.05)
"""


def horovod_job(tmp_path, code, script: str, hosts: int = 2, **values) -> Job:
    environment = {"MUSTER_NPROC": "2"} | values.pop("environment", {})
    return Job(
        tmp_path,
        code(script),
        "train.py",
        hosts,
        image=HOROVOD_IMAGE,
        environment=environment,
        **values,
    )


def told(cluster: Cluster) -> list[dict]:
    """What each rank found, in the ranks' order."""
    lines = "\n".join(host.output for host in cluster.hosts)
    found = [json.loads(line) for line in re.findall(r"told (\{.*\})", lines)]
    return sorted(found, key=lambda facts: int(facts["RANK"]))


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_digits_with_horovod(controller, tmp_path, digits, root):
    """Two hosts learn the digits; the leader alone saves the model."""
    job = Job(
        tmp_path,
        root / "examples",
        "digits_horovod.py",
        2,
        image=HOROVOD_IMAGE,
        channels={"training": digits},
        hyperparameters={"epochs": "4"},
        environment={"MUSTER_NPROC": "1", "MUSTER_HOROVOD_CONTROLLER": controller, **FEW_CORES},
        options=("--hostname", "aws") if controller == "gloo" else (),
    )
    with Cluster(job) as cluster:
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        first, second = cluster.hosts
        found = re.search(r"^test_accuracy=([0-9.]+)$", first.output, re.MULTILINE)
        assert found, first.output
        assert float(found[1]) > 0.9
        assert [path.name for path in first.model.iterdir()] == ["model.pt"]
        assert not list(second.model.iterdir())
        assert first.record["launcher"] == "horovodrun"


def test_digits_with_horovod_under_mpirun(tmp_path, digits, root):
    """Horovod's script needs no horovodrun: mpirun is as good."""
    job = Job(
        tmp_path,
        root / "examples",
        "digits_horovod.py",
        2,
        image=HOROVOD_IMAGE,
        channels={"training": digits},
        hyperparameters={"epochs": "3"},
        environment={"MUSTER_LAUNCHER": "mpirun", "MUSTER_NPROC": "1", **FEW_CORES},
    )
    with Cluster(job) as cluster:
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        assert re.search(r"^test_accuracy=0\.[89]", cluster.hosts[0].output, re.MULTILINE)


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_ranks_have_their_own_hosts_variables_and_nothing_is_shown(controller, tmp_path, code):
    """torch.distributed's words are Horovod's own; SM_* and secrets are each host's, and on no command line."""
    secret = "canary-4712"
    job = horovod_job(
        tmp_path,
        code,
        TELL,
        environment={
            **FEW_CORES,
            "MUSTER_HOROVOD_CONTROLLER": controller,
            "MY_SECRET_KEY": secret,
            "MUSTER_JOB_SECRET": f"{secret}-job",
            "WAIT": "1",
        },
    )
    look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; which ssh sshd || echo no-ssh"
    with Cluster(job) as cluster:
        cluster.start()
        for host in cluster.hosts:
            host.wait_for_file("started")
        for host in cluster.hosts:
            seen = docker("exec", host.container, "bash", "-c", look).stdout
            assert secret not in seen
            assert "no-ssh" in seen
        for host in cluster.hosts:
            (host.model / "go").touch()
        first, second = cluster.hosts
        assert [host.wait() for host in cluster.hosts] == [0, 0], first.output + second.output
        ranks = told(cluster)
        assert [rank["RANK"] for rank in ranks] == ["0", "1", "2", "3"]
        assert [rank["SM_CURRENT_HOST"] for rank in ranks] == ["algo-1"] * 2 + ["algo-2"] * 2
        assert {rank["total"] for rank in ranks} == {4}
        assert all(rank["same"] for rank in ranks)
        assert {rank["MY_SECRET_KEY"] for rank in ranks} == {secret}
        assert {rank["PATH"].partition(":")[0] for rank in ranks} == {"/opt/venv/bin"}


def test_check_of_the_guide():
    """`horovodrun --check`, as the guide has it, lists what Horovod was built with."""
    told = docker("run", "--rm", "--network", "none", HOROVOD_IMAGE, "horovodrun", "--check").stdout
    for built in ("[X] PyTorch", "[X] MPI", "[X] Gloo"):
        assert built in told


def test_a_rank_that_skips_a_step_ends_the_job(tmp_path, code):
    """One rank leaves out a collective and loops: Horovod ends after its stall time, not never."""
    script = """
        import time
        import horovod.torch as hvd, torch
        hvd.init()
        if hvd.rank() == 1:
            time.sleep(120)
        hvd.allreduce(torch.ones(1))
    """
    # Tried: with Gloo's controller Horovod 0.28.1 itself never notices, also without muster.
    environment = {
        "MUSTER_NPROC": "1",
        "MUSTER_HOROVOD_CONTROLLER": "mpi",
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "2",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "5",
        **FEW_CORES,
    }
    job = horovod_job(tmp_path, code, script, environment=environment)
    with Cluster(job) as cluster:
        statuses = cluster.run(60)
        assert statuses[0] == statuses[1] != 0
        assert re.search(r"^1!: \[", cluster.hosts[0].output, re.MULTILINE), cluster.hosts[0].output


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_another_user_on_a_read_only_root(controller, tmp_path, code):
    """Where /tmp forbids programs, the launcher's `ssh` is the image's own."""
    job = horovod_job(
        tmp_path,
        code,
        TELL,
        environment={"MUSTER_NPROC": "1", "MUSTER_HOROVOD_CONTROLLER": controller, **FEW_CORES},
        options=("--user", "1000", "--read-only", "--tmpfs", "/tmp:noexec"),
    )
    with Cluster(job) as cluster:
        for host in cluster.hosts:
            for folder in (job.code, host.folder, *host.folder.rglob("*")):
                folder.chmod(0o777)
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        assert {rank["total"] for rank in told(cluster)} == {2}
