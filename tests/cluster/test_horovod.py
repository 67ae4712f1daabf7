"""horovodrun across containers, without SSH, by both of its controllers."""

from __future__ import annotations

import re

import pytest
from cluster import Cluster, Job
from engine import HOROVOD_IMAGE, docker
from ranks import FEW_CORES, TELL, make_job, told

pytestmark = pytest.mark.docker

SUM = (
    TELL
    + """
    import horovod.torch as hvd, torch
    hvd.init()
    total = int(hvd.allreduce(torch.ones(1), op=hvd.Sum))
    same = (hvd.rank(), hvd.local_rank(), hvd.size()) == tuple(
        int(facts[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")
    )
    os.write(1, f"horovod's sum {total} {same}\\n".encode())
"""
)


def horovod_job(*args, **values) -> Job:
    return make_job(HOROVOD_IMAGE, *args, **values)


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


def test_horovods_operations_before_the_script(tmp_path, code):
    """At the level full its own allreduce is tried over both hosts, without horovodrun; the log has its rate."""
    others = "collective.burn=off,collective.host=off,collective.pairs=off"
    chosen = {"MUSTER_CHECK": "full", "MUSTER_CHECKS": others, "MUSTER_LAUNCHER": "horovodrun"}
    env = chosen | FEW_CORES
    with Cluster(horovod_job(tmp_path, code, SUM, environment=env)) as cluster:
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        for host in cluster.hosts:
            found = {one["name"]: one for one in host.record["checks"]}
            assert found["collective.horovod"]["status"] == "PASS"
        log = cluster.hosts[0].output
        assert re.search(r"PASS +collective\.horovod +4M over 4 ranks by horovod \(gloo\): ", log)
        assert "horovod's sum 4 True" in log


def test_case_061_check_of_the_guide():
    """`horovodrun --check`, as the guide has it, lists what Horovod was built with."""
    told = docker("run", "--rm", "--network", "none", HOROVOD_IMAGE, "horovodrun", "--check").stdout
    for built in ("[X] PyTorch", "[X] MPI", "[X] Gloo"):
        assert built in told


def test_case_065_a_rank_that_skips_a_step_ends_the_job(tmp_path, code):
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
        SUM,
        environment={"MUSTER_HOROVOD_CONTROLLER": controller, **FEW_CORES},
        options=("--user", "1000", "--read-only", "--tmpfs", "/tmp:noexec"),
    )
    with Cluster(job) as cluster:
        for host in cluster.hosts:
            for folder in (job.code, host.folder, *host.folder.rglob("*")):
                folder.chmod(0o777)
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        said = "\n".join(host.output for host in cluster.hosts)
        # torch.distributed's words are the same as Horovod's own.
        assert said.count("horovod's sum 4 True\n") == 4
        assert {rank["SM_CURRENT_HOST"] for rank in told(cluster)} == {"algo-1", "algo-2"}
