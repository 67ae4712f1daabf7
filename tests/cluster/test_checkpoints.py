"""Checkpoints on real containers: under every launcher, and over a restart as SageMaker does it."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import pytest
from cluster import Cluster, Job
from engine import HOROVOD_IMAGE, IMAGE, MPI_IMAGE, docker
from ranks import FEW_CORES, make_job

pytestmark = pytest.mark.docker

LAUNCHERS = {
    "torchrun": (IMAGE, {}),
    "mpirun": (MPI_IMAGE, {}),
    "horovodrun-gloo": (HOROVOD_IMAGE, {"MUSTER_HOROVOD_CONTROLLER": "gloo"}),
    "horovodrun-mpi": (HOROVOD_IMAGE, {"MUSTER_HOROVOD_CONTROLLER": "mpi"}),
}
FOLDER = "/opt/ml/output/checkpoints"
"""Below a folder that each host has for itself, as on SageMaker."""
DIFFERENT = """
    import os
    from muster.training import checkpoint
    rank = int(os.environ["RANK"])
    for step in (10, 20, 30)[: 3 if os.environ["SM_CURRENT_HOST"] == "algo-1" else 2]:
        checkpoint.save(f"{rank}-at-{step}", step)
    step = checkpoint.resume()
    os.write(1, f"resumed {rank} {step} {checkpoint.load(step)}\\n".encode())
"""


def name_folder(cluster: Cluster) -> None:
    """What the platform writes for a job with a CheckpointConfig."""
    for host in cluster.hosts:
        path = host.folder / "input" / "config" / "checkpointconfig.json"
        path.write_text(json.dumps({"LocalPath": FOLDER}), encoding="utf-8")


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_case_096_ranks_agree_under_every_launcher(launcher, tmp_path, code):
    """Nobody initialises anything: neither torch.distributed, nor MPI, nor Horovod."""
    image, own = LAUNCHERS[launcher]
    environment = {"MUSTER_LAUNCHER": launcher.partition("-")[0], **FEW_CORES, **own}
    job = make_job(image, tmp_path, code, DIFFERENT, environment=environment)
    with Cluster(job) as cluster:
        name_folder(cluster)
        statuses = cluster.run()
        log = "".join(host.output for host in cluster.hosts)
        assert statuses == [0, 0], log
        expected = [f"{rank} 20 {rank}-at-20" for rank in range(4)]
        assert sorted(re.findall(r"resumed (\d .+)", log)) == expected


def test_case_096_a_reclaimed_host_costs_one_epoch(tmp_path, root, digits):
    """A host is killed in mid-training; with the hosts' folders together on all of them, as S3 brings
    them back, the job goes on and learns the digits."""

    def make(name: str) -> Job:
        return Job(
            tmp_path / name,
            code=root / "examples",
            program="digits_resume.py",
            hosts=2,
            channels={"training": digits},
            environment={"MUSTER_NPROC": "2", "OMP_NUM_THREADS": "1"},
        )

    with Cluster(make("first")) as cluster:
        name_folder(cluster)
        cluster.start()
        first, second = cluster.hosts
        wait_for(first.folder / "output" / "checkpoints" / "step-00000003")
        docker("kill", second.container)
        assert first.wait() == 77, first.output
        folders = [host.folder / "output" / "checkpoints" for host in cluster.hosts]
        saved = {path.name for path in folders[0].glob("step-*")}
    with Cluster(make("second")) as cluster:
        name_folder(cluster)
        for host in cluster.hosts:
            for folder in filter(Path.exists, folders):
                together = host.folder / "output" / "checkpoints"
                shutil.copytree(folder, together, dirs_exist_ok=True)
        assert cluster.run() == [0, 0], [host.output for host in cluster.hosts]
        output = cluster.hosts[0].output
    found = re.search(r"^resumed after epoch=(\d+)$", output, re.MULTILINE)
    assert found, output
    # A file that has its name is whole: of the newest two steps there is one at least.
    assert f"step-{int(found[1]):08d}" in sorted(saved)[-2:]
    assert f"epoch={found[1]} " not in output
    accuracy = re.search(r"^test_accuracy=([0-9.]+)$", output, re.MULTILINE)
    assert accuracy, output
    assert float(accuracy[1]) > 0.95


def test_a_folder_that_can_not_be_made_ends_all_hosts(tmp_path, code):
    """Before any rank begins, with the same reason on both."""
    job = Job(
        tmp_path,
        code("print('begun')"),
        "train.py",
        hosts=2,
        environment={"MUSTER_LAUNCHER": "plain", "MUSTER_CHECKPOINT_DIR": "/proc/checkpoints"},
    )
    with Cluster(job) as cluster:
        assert cluster.run() == [75, 75]
        first, second = cluster.hosts
        assert first.failure == second.failure
        assert first.failure.startswith("checkpoints can't be written to /proc/checkpoints ")
        assert "begun" not in first.output + second.output


def wait_for(path: Path, timeout: float = 90) -> None:
    """Waits until a folder is there and has a file with a name in it."""
    deadline = time.monotonic() + timeout
    while not any(path.glob("[!.]*")):
        assert time.monotonic() < deadline, f"nothing in {path}"
        time.sleep(0.05)
