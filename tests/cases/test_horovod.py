"""Horovod as people meet it."""

from __future__ import annotations

import json

import pytest
from cluster import Cluster
from engine import HOROVOD_IMAGE, docker
from ranks import FEW_CORES, make_job

pytestmark = pytest.mark.docker

SUM = """
    import horovod.torch as hvd, torch
    hvd.init()
    total = int(hvd.allreduce(torch.ones(1), op=hvd.Sum))
    print(f"horovod's sum {total} on {hvd.rank()}", flush=True)
"""
WRAPPER = (
    '#!/bin/sh\necho "site mpirun, version 9"\nexec /usr/bin/mpirun --allow-run-as-root "$@"\n'
)


def test_case_060_and_061_what_it_was_built_with():
    """Compiled for torch of today; what was asked for is there, what was ruled out is not."""
    ask = (
        "import json, torch, horovod, horovod.torch as hvd;"
        "print(json.dumps([torch.__version__, horovod.__version__, hvd.mpi_built(), hvd.gloo_built()]))"
    )
    told = docker("run", "--rm", "--network", "none", HOROVOD_IMAGE, "python", "-c", ask).stdout
    torch, horovod, mpi, gloo = json.loads(told)
    assert tuple(map(int, torch.split("+")[0].split("."))) >= (2, 1, 0)
    assert horovod == "0.28.1"
    assert mpi
    assert gloo
    told = docker("run", "--rm", "--network", "none", HOROVOD_IMAGE, "horovodrun", "--check-build")
    assert "[ ] TensorFlow" in told.stdout
    assert "[ ] MXNet" in told.stdout


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_case_063_an_mpi_that_is_hard_to_tell(controller, tmp_path, code):
    """Variables of a job around it, and an mpirun that says something else of itself: the controller is chosen by name."""
    around = {"OMPI_COMM_WORLD_RANK": "7", "OMPI_COMM_WORLD_SIZE": "9", "PMIX_RANK": "7"}
    path = "/opt/ml/input/data/code/bin:/opt/venv/bin:/usr/local/bin:/usr/bin:/bin"
    job = make_job(
        *(HOROVOD_IMAGE, tmp_path, code, SUM),
        environment={
            "MUSTER_NPROC": "1",
            "MUSTER_HOROVOD_CONTROLLER": controller,
            "PATH": path,
            **around,
            **FEW_CORES,
        },
    )
    wrapper = job.code / "bin" / "mpirun"
    wrapper.parent.mkdir()
    wrapper.write_text(WRAPPER, encoding="utf-8")
    wrapper.chmod(0o755)
    with Cluster(job) as cluster:
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        for rank, host in enumerate(cluster.hosts):
            assert f"horovod's sum 2 on {rank}\n" in host.output


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_case_064_two_networks(controller, tmp_path, code):
    """The hosts are on Docker's own bridge, too, which has the default route: the ranks meet on the network between them."""
    chosen = {"MUSTER_NPROC": "1", "MUSTER_HOROVOD_CONTROLLER": controller, **FEW_CORES}
    with Cluster(make_job(HOROVOD_IMAGE, tmp_path, code, SUM, environment=chosen)) as cluster:
        cluster.start_on_two_networks()
        statuses = [host.wait() for host in cluster.hosts]
        assert statuses == [0, 0], "".join(host.output for host in cluster.hosts)
        for rank, host in enumerate(cluster.hosts):
            assert f"horovod's sum 2 on {rank}\n" in host.output
