"""A real script on real containers."""

from __future__ import annotations

import re
import time

import pytest
from cluster import Cluster, Job
from engine import GPU_CELLS, IMAGE, SLIM_IMAGE, gpu_image, has_image

pytestmark = pytest.mark.docker


def train_on_two_hosts(tmp_path, root, digits, image, **environment):
    """Two hosts of two ranks learn the digits above 0.95; the leader alone saves the model."""
    job = Job(
        tmp_path,
        code=root / "examples",
        program="digits_ddp.py",
        hosts=2,
        image=image,
        channels={"training": digits},
        environment={"MUSTER_NPROC": "2", **environment},
    )
    with Cluster(job) as cluster:
        statuses = cluster.run()
        first, second = cluster.hosts
        assert statuses == [0, 0], first.output + second.output
        found = re.findall(r"^test_accuracy=([0-9.]+)$", first.output, re.MULTILINE)
        assert len(found) == 1, first.output
        assert float(found[0]) > 0.95
        assert [path.name for path in first.model.iterdir()] == ["model.pt"]
        assert not list(second.model.iterdir())
        assert first.record["world_size"] == 4
        assert [rank["rank"] for rank in second.record["ranks"]] == [2, 3]
        assert not first.failure


@pytest.mark.parametrize("image", [IMAGE, SLIM_IMAGE])
def test_two_hosts_train_the_digits(image, tmp_path, digits, root):
    """The CPU image on both bases."""
    assert has_image(image), "run `make images`"
    train_on_two_hosts(tmp_path, root, digits, image)


@pytest.mark.parametrize("cell", GPU_CELLS)
def test_two_hosts_train_the_digits_in_a_gpu_image(cell, tmp_path, digits, root):
    """Over gloo, as there is no GPU here, once the job says that it may do without."""
    train_on_two_hosts(tmp_path, root, digits, gpu_image(cell), MUSTER_ALLOW_CPU="1")


def test_a_gpu_image_without_gpus_ends_on_all_hosts(tmp_path, root):
    """Status 75, the same text on both hosts, and no rank has started."""
    job = Job(
        tmp_path,
        code=root / "examples",
        program="digits_ddp.py",
        hosts=2,
        # The CPU image as a GPU image: what decides is the variable that the GPU images set.
        environment={"MUSTER_IMAGE_DEVICE": "gpu"},
    )
    with Cluster(job) as cluster:
        assert cluster.run() == [75, 75]
        first, second = cluster.hosts
        assert first.failure == second.failure
        assert re.match(r"this image is made for GPUs, and algo-\d shows none", first.failure)
        assert "muster kind=check host=algo-" in first.failure
        assert first.record["ranks"] == []


def test_a_late_leader_is_waited_for(tmp_path, code):
    """The leader's name appears five seconds after the other host has started, as on SageMaker."""
    script = (
        "import torch.distributed as d; d.init_process_group('gloo'); print(d.get_world_size())"
    )
    job = Job(tmp_path, code=code(script), program="train.py", hosts=2)
    with Cluster(job) as cluster:
        first, second = cluster.hosts
        cluster.start(second)
        time.sleep(5)
        cluster.start(first)
        assert [host.wait() for host in cluster.hosts] == [0, 0], first.output + second.output
        assert re.search(r"^2$", first.output, re.MULTILINE)


def test_hyperparameters_arrive_byte_for_byte(tmp_path, code):
    """No shell stands between SageMaker and the script: blanks, $, ; and quotes are only text."""
    odd = {
        "note": "a b",
        "cost": "$HOME `id` $(id)",
        "glob": "*.py; touch /tmp/pwned",
        "sdk": '"quoted by the SDK"',
        "lr": "1e-3",
        "flag": "true",
    }
    script = "import json, os, sys; print(json.dumps([sys.argv[1:], os.path.exists('/tmp/pwned')]))"
    job = Job(tmp_path, code=code(script), program="train.py", hyperparameters=odd)
    with Cluster(job) as cluster:
        assert cluster.run() == [0]
        expected = (
            '[["--cost", "$HOME `id` $(id)", "--flag", "True", "--glob", "*.py; touch /tmp/pwned", '
            '"--lr", "1e-3", "--note", "a b", "--sdk", "quoted by the SDK"], false]'
        )
        assert expected in cluster.hosts[0].output


def test_threads_follow_the_containers_share_of_time(tmp_path, code):
    """With `--cpus=1` a rank gets one thread, however many cores the machine has."""
    script = "import os; print(os.environ['OMP_NUM_THREADS'], os.environ['SM_NUM_CPUS'])"
    job = Job(tmp_path, code=code(script), program="train.py", options=("--cpus=1",))
    with Cluster(job) as cluster:
        assert cluster.run() == [0]
        assert re.search(r"^1 1$", cluster.hosts[0].output, re.MULTILINE)
