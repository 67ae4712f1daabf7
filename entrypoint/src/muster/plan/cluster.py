"""For scripts that bring a launcher of their own: the entry point once a host, and what it needs to know. Pure.

accelerate, deepspeed, colossalai and shell scripts with torchrun find the hosts in variables and
in a hostfile, and `ssh HOST COMMAND` reaches each of them.
"""

from __future__ import annotations

from muster.plan.start import Start


def command(start: Start) -> tuple[str, ...]:
    """The argv in front of the rank's own command: the shim alone."""
    return start.facts.shim


def environment(start: Start) -> dict[str, str]:
    """What the entry point finds."""
    topology = start.topology
    return {
        "NODE_RANK": str(topology.node_rank),
        "NNODES": str(len(topology.hosts)),
        "NPROC_PER_NODE": str(topology.nproc),
        "MASTER_ADDR": start.master_addr,
        "MASTER_PORT": str(start.facts.master_port),
    }


def hostfile(start: Start) -> str:
    """The hosts as deepspeed and Open MPI read them."""
    return "".join(f"{host} slots={slots}\n" for host, slots in start.slots)
