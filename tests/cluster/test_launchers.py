"""Launchers that a script brings along, unmodified: accelerate and deepspeed under launcher cluster, without SSH."""

from __future__ import annotations

import re

import pytest
import variants
from cluster import Cluster, Job
from engine import FULL

pytestmark = pytest.mark.docker

ACCELERATE = """
    import os, torch
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Linear(4, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    accelerator.backward(model(torch.ones(2, 4)).sum())
    optimizer.step()
    total = accelerator.reduce(torch.ones(1)).item()
    print(f"joined {accelerator.process_index} {total} {os.environ['SM_CURRENT_HOST']}", flush=True)
    accelerator.end_training()
"""
# One write for each line: the launchers give all their processes one pipe.
# deepspeed's launcher is what is looked at: its own collectives are compiled at their first use.
DEEPSPEED = """
    import os, torch, torch.distributed as dist
    for name, word in (("RANK", "RANK"), ("WORLD_SIZE", "SIZE")):
        os.environ.setdefault(name, os.environ.get(f"OMPI_COMM_WORLD_{word}", ""))
    dist.init_process_group("gloo")
    total = torch.ones(1)
    dist.all_reduce(total)
    print(f"joined {dist.get_rank()} {total.item()} {os.environ['SM_CURRENT_HOST']}", flush=True)
    dist.destroy_process_group()
"""
# Everybody runs it, as a shell entry is run once a host.
ON_EACH_HOST = {
    "accelerate": """
        exec accelerate launch --multi_gpu --num_machines "$NNODES" --machine_rank "$NODE_RANK" \\
            --num_processes "$((NNODES * NPROC_PER_NODE))" \\
            --main_process_ip "$MASTER_ADDR" --main_process_port "$MASTER_PORT" inner.py
    """,
    "deepspeed": """
        exec deepspeed --hostfile "$MUSTER_HOSTFILE" --no_ssh --node_rank "$NODE_RANK" \\
            --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" inner.py
    """,
}
# The first host alone starts them, while the others' entries end at once.
FROM_THE_FIRST = {
    "accelerate": """
        exec accelerate launch --cpu --mpirun_hostfile "$MUSTER_HOSTFILE" --num_machines "$NNODES" \\
            --num_processes "$((NNODES * NPROC_PER_NODE))" \\
            --main_process_ip "$MASTER_ADDR" --main_process_port "$MASTER_PORT" inner.py
    """,
    "deepspeed": """
        exec deepspeed --hostfile "$MUSTER_HOSTFILE" --master_port "$MASTER_PORT" inner.py
    """,
    "deepspeed-openmpi": """
        exec deepspeed --hostfile "$MUSTER_HOSTFILE" --launcher openmpi --master_port "$MASTER_PORT" inner.py
    """,
}
OTHERS_LEAVE = '[ "$NODE_RANK" = 0 ] || exit 0\n'


@pytest.fixture(scope="session")
def image() -> str:
    """The image smddp with accelerate, deepspeed and pdsh."""
    return variants.build("launchers")


@pytest.fixture
def run(image, tmp_path, code):
    """A function that runs a shell script and its inner program on two hosts; it returns what they said."""

    def start(shell: str, name: str) -> str:
        inner = ACCELERATE if name == "accelerate" else DEEPSPEED
        folder = code(inner, "inner.py")
        (folder / "run.sh").write_text("#!/bin/sh\nset -e\n" + shell, encoding="utf-8")
        environment = {"MUSTER_NPROC": "2", "OMP_NUM_THREADS": "1"}
        with Cluster(
            Job(tmp_path, folder, "run.sh", 2, image=image, environment=environment)
        ) as cluster:
            statuses = cluster.run()
            said = "".join(host.output for host in cluster.hosts)
            assert statuses == [0, 0], said
            assert cluster.hosts[0].record["launcher"] == "cluster"
            return said

    return start


@pytest.mark.parametrize("name", ON_EACH_HOST if FULL else ["accelerate"])
def test_case_009_on_each_host(name, run):
    """The entry finds who it is and where the first host is; the launchers' processes meet."""
    joined = re.findall(r"joined (\d) 4\.0 (algo-\d)", run(ON_EACH_HOST[name], name))
    assert sorted(joined) == [*zip("0123", ["algo-1"] * 2 + ["algo-2"] * 2, strict=True)]


@pytest.mark.parametrize("name", FROM_THE_FIRST if FULL else ["deepspeed"])
def test_case_009_from_the_first_host(name, run):
    """Pdsh and mpirun reach the other host by `ssh`, which is ours; that host's own entry has long ended."""
    joined = re.findall(
        r"joined (\d) 4\.0 (algo-\d)", run(OTHERS_LEAVE + FROM_THE_FIRST[name], name)
    )
    assert sorted(joined) == [*zip("0123", ["algo-1"] * 2 + ["algo-2"] * 2, strict=True)]
