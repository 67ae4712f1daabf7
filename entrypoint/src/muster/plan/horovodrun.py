"""horovodrun on the world's first host. Pure.

Its Gloo controller writes the launcher's whole environment on the command line of each remote
rank, where every process of the host can read it: so the launcher gets an environment of chosen
names, and each rank the rest from its own host's harness. The `ssh` that it calls is muster-rsh.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.errors import PlanError
from muster.plan.start import Start

KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "USER", "LOGNAME")
"""What the launcher itself needs, and what is no secret."""
_PREFIXES = ("HOROVOD_", "NCCL_", "GLOO_", "OMP_", "FI_")
_START_S = 120
"""For the ranks to start. The hosts are all here by then."""
_STALL_S = "600"


def command(start: Start) -> tuple[str, ...]:
    """The argv in front of the rank's own command; nothing on hosts that are not the first.

    Raises:
        PlanError: horovodrun is not on PATH.
    """
    facts, topology = start.facts, start.topology
    if facts.horovodrun is None:
        what = "launcher horovodrun: no horovodrun on PATH"
        raise PlanError(what, "Use an image with Horovod: muster/horovod.")
    if topology.node_rank:
        return ()
    nics = (
        ["--network-interfaces", facts.interface]
        if facts.interface and len(start.slots) > 1
        else []
    )
    return (
        facts.horovodrun,
        *("-np", str(topology.world_size)),
        *("-H", ",".join(f"{host}:{slots}" for host, slots in start.slots)),
        # Chosen, never guessed: it would take MPI wherever an mpirun is on PATH.
        f"--{start.controller}",
        *nics,
        # Its cache of checks is a file in HOME, which is another job's, read-only, or not there.
        "--disable-cache",
        *("--start-timeout", str(_START_S)),
        *facts.shim,
    )


def environment(start: Start) -> dict[str, str]:
    """Defaults for the ranks on every host: without the first, a rank that waits waits for ever."""
    defaults = {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": _STALL_S}
    return {name: value for name, value in defaults.items() if name not in start.inherited}


def kept(inherited: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the environment that the launcher gets. What another launcher has set is none."""
    return tuple(name for name in inherited if name in KEPT or name.startswith(_PREFIXES))
