"""How code gets into real containers."""

from __future__ import annotations

import time

import pytest
from cluster import Cluster, Job
from engine import bridge
from s3_store import Store, pack

pytestmark = pytest.mark.docker

TRAIN = """
import os
import torch, torch.distributed as dist
from pkg import here
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {int(total)} in {here()}", flush=True)
dist.destroy_process_group()
"""
HERE = "import os\ndef here():\n    return os.getcwd()\n"


def test_two_hosts_fetch_a_module_from_s3(tmp_path):
    """Each host fetches the archive once, whatever its ranks are, and all ranks begin after that."""
    job = Job(tmp_path, program="pkg.train", hosts=2, hyperparameters={}, environment={})
    with Cluster(job) as cluster, Store(bridge(cluster.network)) as store:
        files = {"pkg/__init__.py": HERE, "pkg/train.py": TRAIN}
        address = store.put("job/source/sourcedir.tar.gz", pack(files))
        job.environment = {**store.env, "MUSTER_NPROC": "2"}
        for host in cluster.hosts:
            host.rewrite("hyperparameters", sagemaker_submit_directory=f'"{address}"')
        assert cluster.run() == [0, 0]
        for number, host in enumerate(cluster.hosts):
            said = host.output
            assert said.count(f"MB from {address}") == 1, said
            for rank in (2 * number, 2 * number + 1):
                assert f"rank {rank} of 4 in /opt/ml/code" in said
            assert "canary" not in said


def test_a_host_that_cannot_fetch(tmp_path):
    """One host without a way to S3 ends the job on both, with the same reason, within seconds."""
    job = Job(tmp_path, program="train.py", hosts=2)
    with Cluster(job) as cluster:
        with Store(bridge(cluster.network)) as store:
            address = store.put("job/sourcedir.tar.gz", pack({"train.py": TRAIN}))
            for host in cluster.hosts:
                host.rewrite("hyperparameters", sagemaker_submit_directory=address)
            job.environment = store.env
            cluster.start(cluster.hosts[0])
            # The internal network leads nowhere else.
            job.environment = {**store.env, "AWS_ENDPOINT_URL_S3": "http://192.0.2.1:9000"}
            cluster.start(cluster.hosts[1])
            began = time.monotonic()
            assert [host.wait() for host in cluster.hosts] == [71, 71]
            assert time.monotonic() - began < 60
        for host in cluster.hosts:
            first, second = host.failure.splitlines()[:2]
            assert first.startswith(f"{address}: no way to S3 at http://192.0.2.1:9000")
            assert second == "muster kind=code host=algo-2 rank=- status=71"


def test_a_network_without_a_way_out(tmp_path):
    """AWS's own endpoints can't be reached: told within 30 s, with the channel `code` as the way out."""
    address = "s3://bucket/sourcedir.tar.gz"
    env = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "eu-west-1"}
    hyperparameters = {"sagemaker_submit_directory": address}
    job = Job(tmp_path, program="train.py", hyperparameters=hyperparameters, environment=env)
    with Cluster(job) as cluster:
        began = time.monotonic()
        assert cluster.run() == [71]
        assert time.monotonic() - began < 30
        failure = cluster.hosts[0].failure
        assert "no way to S3 at https://bucket.s3.eu-west-1.amazonaws.com" in failure
        assert "the channel `code`" in failure
