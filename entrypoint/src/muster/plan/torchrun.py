"""torchrun with static rendezvous. Pure.

Static, because the harness knows which host is node 0: the c10d rendezvous has
to guess it from the container's hostname, which on SageMaker is none of the
names in the job, and then waits for ten minutes.
"""

from __future__ import annotations

from muster.errors import PlanError
from muster.plan.start import Start


def command(start: Start) -> tuple[str, ...]:
    """The argv in front of the rank's own command.

    Raises:
        PlanError: torchrun is not on PATH.
    """
    topology, facts = start.topology, start.facts
    if facts.torchrun is None:
        what = "launcher torchrun: no torchrun on PATH"
        raise PlanError(what, "Use an image with PyTorch, or set MUSTER_LAUNCHER=plain.")
    return (
        facts.torchrun,
        f"--nnodes={len(topology.hosts)}",
        f"--nproc-per-node={topology.nproc}",
        f"--node-rank={topology.node_rank}",
        "--rdzv-backend=static",
        f"--master-addr={start.master_addr}",
        f"--master-port={facts.master_port}",
        # What torchrun starts is the shim, an executable, and the shim starts the script.
        "--no-python",
        *facts.shim,
    )
