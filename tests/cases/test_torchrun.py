"""torchrun as people meet it."""

from __future__ import annotations

import json
import os
import socket

import pytest
from cluster import Cluster, Job

TORCHRUN = {"MUSTER_LAUNCHER": "torchrun"}


@pytest.mark.docker
@pytest.mark.parametrize("alias", ["127.0.1.1", "198.51.100.7"], ids=["loopback", "elsewhere"])
def test_case_037_a_hostname_that_leads_elsewhere(alias, tmp_path, code):
    """The container's own hostname resolves to the loopback, or to nobody: the ranks of two hosts
    find each other all the same, by the names that the job has."""
    script = """
        import os, socket, torch, torch.distributed as dist
        dist.init_process_group("gloo")
        one = torch.ones(1)
        dist.all_reduce(one)
        print("sum", one.item())
        dist.destroy_process_group()
    """
    options = ("--hostname", "aws", "--add-host", f"aws:{alias}")
    job = Job(tmp_path, code(script), "train.py", hosts=2, options=options)
    with Cluster(job) as cluster:
        assert cluster.run() == [0, 0], [host.output for host in cluster.hosts]
        assert all("sum 2.0" in host.output for host in cluster.hosts)


def test_case_039_a_port_that_is_taken(contract):
    """A taken port is got round; where no harness stays to tell the other hosts, it is named."""
    contract.hyperparameters()
    with socket.create_server(("", 0)) as server:
        taken = str(server.getsockname()[1])
        ended = contract.run(env=TORCHRUN | {"MUSTER_MASTER_PORT": taken})
        assert ended.status == 0, ended.log
        assert ended.env["MASTER_PORT"] != taken
        contract.config("resourceconfig", {"current_host": "a-1", "hosts": ["a-1", "a-2"]})
        alone = {"MUSTER_EXEC": "1", "MUSTER_MASTER_PORT": taken}
        ended = contract.run(env=TORCHRUN | alone)
    assert ended.status == 76
    assert ended.failure.startswith(f"port {taken}, on which the ranks meet, is taken (host a-1)")


@pytest.mark.parametrize(("chosen", "threads"), [(None, None), ("3", "3")])
def test_case_041_threads(contract, chosen, threads):
    """The user's number wins; else the usable cores are shared out among the ranks."""
    contract.hyperparameters()
    script = "import os\nprint('threads', os.environ['OMP_NUM_THREADS'])"
    contract.script(script)
    env = TORCHRUN | {"MUSTER_NPROC": "2"} | ({"OMP_NUM_THREADS": chosen} if chosen else {})
    ended = contract.run(env=env)
    assert ended.status == 0, ended.log
    # tests/cluster has the same below `docker run --cpus`.
    usable = len(os.sched_getaffinity(0))
    assert f"threads {threads or max(1, usable // 2)}" in ended.log


@pytest.mark.parametrize(
    ("sent", "status"), [("0", 73), ("two", 73), ("'2'", 73), ("2", 0), ('"2"', 0)]
)
def test_case_042_ranks_a_host(contract, sent, status):
    """processes_per_host is a number from 1 or an error that shows it; GPUs that a CPU host
    doesn't have are counted as none."""
    contract.hyperparameters(sagemaker_mpi_num_of_processes_per_host=sent)
    ended = contract.run("plan", "--json", env=TORCHRUN | {"NVIDIA_VISIBLE_DEVICES": "void"})
    assert ended.status == status, ended.log
    if status == 0:
        assert json.loads(ended.log)["nproc"] == 2
    else:
        assert "sagemaker_mpi_num_of_processes_per_host" in ended.log


def test_case_042_a_misspelt_key(contract):
    """A key that is nearly one is an error that names the right one."""
    contract.hyperparameters(sagemaker_mpi_num_of_process_per_host="2")
    ended = contract.run()
    assert ended.status == 73
    assert "sagemaker_mpi_num_of_processes_per_host" in ended.failure


@pytest.mark.parametrize("option", ["--local_rank", "--local-rank"])
@pytest.mark.parametrize("launcher", ["plain", "torchrun"])
def test_case_043_scripts_that_want_local_rank(contract, launcher, option):
    """The variables are there, and on request the old launcher's argument in either spelling."""
    contract.hyperparameters(lr="1")
    env = {"MUSTER_LAUNCHER": launcher, "MUSTER_LOCAL_RANK_ARG": option}
    ended = contract.run(env=env)
    assert ended.status == 0, ended.log
    assert ended.argv == ["--lr", "1", f"{option}=0"]
    if launcher == "torchrun":
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
        assert [ended.env[name] for name in names] == ["0", "0", "1", "1", "127.0.0.1"]
