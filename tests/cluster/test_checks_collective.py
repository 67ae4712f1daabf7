"""What ranks that add something up find out, before the script's do, among four hosts."""

from __future__ import annotations

import time

import pytest
from cluster import Cluster, begun_job
from slow_link import slow_link

pytestmark = pytest.mark.docker

CHANNEL = 7770
ENV = {
    "MUSTER_CHECK": "full",
    "MUSTER_CHECKS": "collective.burn=off",
    "MUSTER_LAUNCHER": "torchrun",
    "MUSTER_NPROC": "1",
    "OMP_NUM_THREADS": "1",
}
WRONG = """
if "muster_perf" in sys.orig_argv:
    import torch.distributed as dist
    right = dist.all_reduce
    def wrong(tensor, *rest, **named):
        done = right(tensor, *rest, **named)
        if tensor.numel() > 1000:
            tensor.view(-1)[7] += 1
        return done
    dist.all_reduce = wrong
"""


@pytest.fixture
def job(tmp_path):
    """Return a function that describes a job whose script only says that it has begun."""
    return lambda hosts, **environment: begun_job(tmp_path, hosts, ENV | environment)


def pairs(cluster: Cluster) -> dict[str, dict[str, str]]:
    """Return what the pairs have shown of each host."""
    return {
        host.name: next(one for one in host.record["checks"] if one["name"] == "collective.pairs")
        for host in cluster.hosts
    }


def test_a_slow_host_is_named(job):
    """50 ms on every message of one host of four: the pairs name it, and nobody else; the job goes on."""
    with Cluster(job(4)) as cluster:
        slow = cluster.hosts[2]
        cluster.start(slow)  # It waits for the first host meanwhile.
        with slow_link(slow.pid, 50, CHANNEL):
            cluster.start(*(host for host in cluster.hosts if host is not slow))
            assert [host.wait(180) for host in cluster.hosts] == [0] * 4, cluster.hosts[0].output
        found = pairs(cluster)
        statuses = {name: one["status"] for name, one in found.items()}
        assert statuses == {name: "WARN" if name == slow.name else "PASS" for name in statuses}, (
            found
        )
        assert found[slow.name]["evidence"].endswith("did well")
        log = cluster.hosts[0].output
        assert "WARN    collective.pairs   with algo-4: " in log
        assert all("begun" in host.output for host in cluster.hosts)


def test_a_wrong_value_in_a_collective(job, tmp_path):
    """One host of three gets a wrong element: all hosts end with 75, and it is named."""
    # A line of a .pth file is run as Python begins.
    (tmp_path / "wrong.pth").write_text(
        f"import sys; exec({WRONG!r}, dict(sys=sys))\n", encoding="utf-8"
    )
    site = "/opt/venv/lib/python3.11/site-packages"
    with Cluster(job(3)) as cluster:
        *others, last = cluster.hosts
        cluster.start_with(last, tmp_path / "wrong.pth", site)
        began = time.monotonic()
        cluster.start(*others)
        assert [host.wait(180) for host in cluster.hosts] == [75] * 3
        assert time.monotonic() - began < 90
        for host in cluster.hosts:
            assert host.failure.startswith("check collective.pairs on algo-3: with algo-"), (
                host.failure
            )
            assert "out of bounds" in host.failure or "wrong" in host.failure
            assert "muster kind=check host=algo-3 rank=- status=75" in host.failure
            assert "begun" not in host.output
