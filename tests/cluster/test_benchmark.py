"""The benchmark on two containers, under each launcher."""

from __future__ import annotations

import re

import pytest
from cluster import Cluster, Job
from engine import HOROVOD_IMAGE, IMAGE
from nccl_table import Output, read
from ranks import FEW_CORES

pytestmark = pytest.mark.docker

SIZES = ("-b", "64", "-e", "4M", "-f", "256", "-n", "5")
WITHIN = 4
"""Times: the machine's cores do all the work, and other tests share them."""
# torchrun as one writes it by hand: muster only takes the container's place.
BY_HAND = """
rank=$(python -c 'import json; c = json.load(open("/opt/ml/input/config/resourceconfig.json"));
print(sorted(c["hosts"]).index(c["current_host"]))')
exec torchrun --nnodes=2 --nproc-per-node=1 --node-rank=$rank --master-addr=algo-1 --master-port=29500 \\
    "$(command -v all_reduce_perf)" "$@"
"""
WAYS = {
    "torchrun": (IMAGE, ("bash", "-euc", BY_HAND, "perf", *SIZES), {}),
    "muster": (IMAGE, ("train", "all_reduce_perf", *SIZES), {}),
    "horovodrun": (HOROVOD_IMAGE, ("train", "all_reduce_perf", *SIZES), FEW_CORES),
    "mpirun": (
        HOROVOD_IMAGE,
        ("train", "all_reduce_perf", *SIZES),
        {"MUSTER_LAUNCHER": "mpirun", **FEW_CORES},
    ),
}


def measure(folder, way: str) -> Output:
    """Return what rank 0 has printed."""
    image, command, more = WAYS[way]
    environment = {"MUSTER_NPROC": "1", "OMP_NUM_THREADS": "1", **more}
    folder.mkdir()
    job = Job(folder, hosts=2, image=image, command=command, environment=environment)
    with Cluster(job) as cluster:
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        first, second = cluster.hosts
        # Hosts by their hostnames without muster: Docker's random ids.
        named = re.findall(r"^#  Rank +\d .+ on +(\S+) +device", first.output, re.MULTILINE)
        assert len(set(named)) == 2
        assert "algbw" not in second.output
        return read(first.output)


def test_the_same_table_under_every_launcher(tmp_path):
    """By torchrun alone, `muster train`, horovodrun and mpirun: the same sizes, no wrong value, and speeds that fit each other."""
    outputs = {way: measure(tmp_path / way, way) for way in WAYS}
    shapes = {
        tuple((line.size, line.count, line.type, line.redop, line.root) for line in output.rows)
        for output in outputs.values()
    }
    assert len(shapes) == 1
    assert [line.size for line in outputs["muster"].rows] == [64, 16384, 2**22]
    for output in outputs.values():
        assert output.out_of_bounds == (0, "OK")
    speeds = {way: output.rows[-1].in_algbw for way, output in outputs.items()}
    assert max(speeds.values()) < WITHIN * min(speeds.values()), speeds


def test_hosts_are_compared(tmp_path):
    """--by-host names the hosts as the job does; a world that is smaller than asked fails on all hosts alike."""
    sizes = ("-b", "1M", "-e", "1M", "-n", "3")
    environment = {"MUSTER_NPROC": "1", "OMP_NUM_THREADS": "1"}
    command = ("train", "sendrecv_perf", *sizes, "--by-host")
    job = Job(tmp_path / "view", hosts=2, command=command, environment=environment)
    job.folder.mkdir()
    with Cluster(job) as cluster:
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        assert re.search(r"^#  algo-1 algo-2 +\d+\.\d\d", cluster.hosts[0].output, re.MULTILINE)
    command = ("train", "sendrecv_perf", *sizes, "--world", "4")
    job = Job(tmp_path / "small", hosts=2, command=command, environment=environment)
    job.folder.mkdir()
    with Cluster(job) as cluster:
        assert cluster.run() == [1, 1]
        for host in cluster.hosts:
            assert "2 ranks have met, 4 were asked for" in host.failure
