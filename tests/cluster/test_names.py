"""Hosts whose names are not algo-1 and algo-2."""

from __future__ import annotations

import pytest
from cluster import Cluster, Job

pytestmark = pytest.mark.docker

SCRIPT = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
ranks = torch.full((1,), float(dist.get_rank()))
dist.all_reduce(ranks)
print("sum", ranks.item(), "rank", dist.get_rank(), "at", os.environ["SM_CURRENT_HOST"])
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    "names",
    [
        # SDK v2's local mode. The order of letters would put 10 first.
        ["algo-2-x9y8z", "algo-10-ab12c"],
        ["ALGO-1.Train.Internal", "algo-2.train.internal"],
    ],
    ids=["suffixed", "full-and-upper-case"],
)
def test_names_of_any_pattern_train(names, tmp_path, code):
    """The ranks find each other and follow the natural order, whatever the names look like."""
    with Cluster(Job(tmp_path, code(SCRIPT), "train.py", hosts=2, names=names)) as cluster:
        assert cluster.run() == [0, 0], [host.output for host in cluster.hosts]
        for rank, host in enumerate(cluster.hosts):
            assert f"sum 1.0 rank {rank} at {host.name}" in host.output


def test_addresses_instead_of_names_train(tmp_path, code):
    """A host list of IPv4 addresses needs no name server at all."""
    subnet, names = "198.18.77.0/29", ["198.18.77.2", "198.18.77.3"]
    job = Job(
        tmp_path, code(SCRIPT), "train.py", hosts=2, names=names, options=("--dns=127.0.0.1",)
    )
    with Cluster(job, subnet=subnet) as cluster:
        assert cluster.run() == [0, 0], [host.output for host in cluster.hosts]
        for rank, host in enumerate(cluster.hosts):
            assert f"sum 1.0 rank {rank} at {host.name}" in host.output
