"""SageMaker's data parallel library, by a stand-in of its backend: what the harness gives it, and its script."""

from __future__ import annotations

import re

import pytest
from cluster import Cluster, Job
from engine import MPI_IMAGE
from ranks import make_job

pytestmark = pytest.mark.docker

ASKED = {"sagemaker_distributed_dataparallel_enabled": "true"}
LIMITS = """
    import torch, torch.distributed as dist
    import smdistributed.dataparallel.torch.torch_smddp
    dist.init_process_group("smddp")
    one = torch.ones(1)
    parts = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_reduce(one)
    dist.broadcast(one, 0)
    dist.all_gather(parts, one)
    dist.reduce(one, 0)
    dist.barrier()
    print("summed", dist.get_rank(), dist.get_backend(), [part.item() for part in parts], flush=True)
    for refused in (
        lambda: dist.new_group([0]),
        lambda: dist.init_process_group("gloo"),
        lambda: dist.all_to_all_single(torch.zeros(2), torch.zeros(2)),
    ):
        try:
            refused()
        except RuntimeError as error:
            print("refused", error, flush=True)
    dist.destroy_process_group()
"""


def smddp_job(tmp_path, code, image, script: str, hosts: int = 2, **values) -> Job:
    return make_job(image, tmp_path, code, script, hosts, hyperparameters=ASKED, **values)


def on_instances(cluster: Cluster, kind: str) -> None:
    """Says that the job's hosts are of that type."""
    for host in cluster.hosts:
        host.rewrite("resourceconfig", current_instance_type=kind, instance_groups=[])


def test_the_guides_script(smddp_image, tmp_path, digits, root):
    """Import, init_process_group("smddp"), DDP: two hosts of two ranks train; rank 0 alone tests and saves."""
    job = Job(
        *(tmp_path, root / "examples", "digits_smddp.py", 2),
        image=smddp_image,
        channels={"training": digits},
        hyperparameters={**ASKED, "epochs": "5"},
        environment={"MUSTER_NPROC": "2", "OMP_NUM_THREADS": "1"},
    )
    with Cluster(job) as cluster:
        on_instances(cluster, "ml.p4d.24xlarge")
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        first, second = cluster.hosts
        (accuracy,) = re.findall(r"^test_accuracy=([0-9.]+)$", first.output, re.MULTILINE)
        assert float(accuracy) > 0.9
        assert [path.name for path in first.model.iterdir()] == ["model.pt"]
        assert not list(second.model.iterdir())
        assert first.record["launcher"] == "mpirun"


def test_the_backends_limits(smddp_image, tmp_path, code):
    """Five collectives and no second group: the harness itself needs none beside them."""
    with Cluster(smddp_job(tmp_path, code, smddp_image, LIMITS)) as cluster:
        on_instances(cluster, "ml.p4de.24xlarge")
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        said = "\n".join(host.output for host in cluster.hosts)
        sums = re.findall(r"summed (\d) smddp \[4.0, 4.0, 4.0, 4.0\]", said)
        assert sorted(sums) == ["0", "1", "2", "3"]
        assert len(re.findall(r"refused smddp: ", said)) == 12


def test_case_067_one_host(smddp_image, tmp_path, code):
    """It works, with the library's other variable, and is warned of: NCCL is as good there."""
    script = "import os\nprint('single', os.environ['SMDATAPARALLEL_USE_SINGLENODE'], flush=True)"
    with Cluster(smddp_job(tmp_path, code, smddp_image, script, 1)) as cluster:
        on_instances(cluster, "ml.p4d.24xlarge")
        assert cluster.run() == [0]
        said = cluster.hosts[0].output
        assert said.count("single 1") == 2
        assert "WARNING: smddp on one host" in said


@pytest.mark.parametrize(
    ("with_library", "kind", "why"),
    [
        (False, "ml.p4d.24xlarge", "the image has no smdistributed.dataparallel"),
        (True, "ml.p5.48xlarge", "it does not support ml.p5.48xlarge"),
        (True, "ml.g5.12xlarge", "it does not support ml.g5.12xlarge"),
    ],
)
def test_case_066_and_067_where_it_can_not_work(
    with_library, kind, why, smddp_image, tmp_path, code
):
    """No rank begins, and all hosts say why; with the fallback the ranks start, and are told the backend."""
    script = "import os\nprint('ran', os.environ.get('MUSTER_BACKEND'), flush=True)"
    image = smddp_image if with_library else MPI_IMAGE
    with Cluster(smddp_job(tmp_path / "1", code, image, script)) as cluster:
        on_instances(cluster, kind)
        assert cluster.run() == [73, 73]
        first, second = cluster.hosts
        assert first.failure == second.failure
        assert why in first.failure
        assert "PyTorch 2.0 to 2.5" in first.failure
        assert not re.search(r"^ran", first.output, re.MULTILINE)
    environment = {"MUSTER_SMDDP_FALLBACK": "nccl"}
    job = smddp_job(tmp_path / "2", code, image, script, environment=environment)
    with Cluster(job) as cluster:
        on_instances(cluster, kind)
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        assert cluster.hosts[1].output.count("ran nccl\n") == 2


def test_case_066_a_library_that_does_not_load(smddp_image, tmp_path, code):
    """The wheel is there and one of its .so files is not: the failure names the file and the way out."""
    script = """
        raise ImportError("libsmddpcpp.so: cannot open shared object file: No such file or directory")
    """
    with Cluster(smddp_job(tmp_path, code, smddp_image, script)) as cluster:
        on_instances(cluster, "ml.p4d.24xlarge")
        statuses = cluster.run()
        assert statuses == [1, 1]
        failure = cluster.hosts[0].failure
        assert failure.startswith("ImportError: libsmddpcpp.so: cannot open shared object file")
        assert "LD_LIBRARY_PATH" in failure
