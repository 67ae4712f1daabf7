"""mpirun on the world's first host. Pure.

Open MPI 4 and 5 are two programs with other names for most things: ORTE's parameters mean nothing
to PRRTE, and it says nothing about them (https://docs.open-mpi.org/en/v5.0.x/launching-apps/).
The other hosts' daemons are started by muster-rsh, and have those hosts' own environment.
"""

from __future__ import annotations

from muster.errors import PlanError
from muster.plan.mpi_options import MpiOptions
from muster.plan.start import Start

AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
"""Containers run as root, and Open MPI asks twice whether that is meant."""
_FIVE = 5
_AT_ONCE = 128
"""Open MPI 4's own default for daemons that start at one time; with fewer than hosts it crashes
when its daemons stay attached, as they must to be ours."""
_RIVALS = {
    "btl_tcp_if_include": "btl_tcp_if_exclude",
    "oob_tcp_if_include": "oob_tcp_if_exclude",
    "prte_if_include": "prte_if_exclude",
}
"""Open MPI refuses to have both."""


def command(start: Start) -> tuple[str, ...]:
    """The argv in front of the rank's own command; nothing on hosts that are not the first.

    Raises:
        PlanError: mpirun is not on PATH.
    """
    facts, topology, options = start.facts, start.topology, start.options
    # On the other hosts, too: mpirun starts its daemon there.
    if facts.mpirun is None or facts.mpi_major is None:
        what = "launcher mpirun: no mpirun of Open MPI on PATH"
        raise PlanError(what, "Use an image with Open MPI, such as muster/smddp or muster/horovod.")
    if topology.node_rank:
        return ()
    words = [facts.mpirun, "-np", str(topology.world_size)]
    words += ["--host", ",".join(f"{host}:{slots}" for host, slots in start.slots)]
    if not options.sets("bind-to"):
        words += ["--bind-to", "none"]
    if not options.sets("map-by"):
        words += ["--map-by", "slot"]
    if facts.mpi_major >= _FIVE and len(topology.hosts) > 1:
        words += ["--leave-session-attached"]
    for option, key, value in _parameters(start, options):
        words += [f"--{option}", key, value]
    return (*words, *options.words, *_user(options), *facts.shim)


def environment(start: Start) -> dict[str, str]:
    """Variables for mpirun, its daemons and all ranks, on every host."""
    return {**as_root(start), **start.options.variables}


def as_root(start: Start) -> dict[str, str]:
    """What lets Open MPI run as root, as SageMaker's containers do."""
    return {name: value for name, value in AS_ROOT.items() if name not in start.inherited}


def _user(options: MpiOptions) -> list[str]:
    return [
        word for option, key, value in options.parameters for word in (f"--{option}", key, value)
    ]


def _parameters(start: Start, options: MpiOptions) -> list[tuple[str, str, str]]:
    """Ours, without those that the user sets in another way."""
    major = start.facts.mpi_major or 0
    ours = _five(start) if major >= _FIVE else _four(start)
    return [(option, key, value) for option, key, value in ours if not _taken(key, start, options)]


def _taken(key: str, start: Start, options: MpiOptions) -> bool:
    names = [key, *filter(None, [_RIVALS.get(key)])]
    prefixes = ("OMPI_MCA_", "PRTE_MCA_")
    return options.sets(*names) or any(
        prefix + name in start.inherited for prefix in prefixes for name in names
    )


def _four(start: Start) -> list[tuple[str, str, str]]:
    hosts, cidr = len(start.topology.hosts), start.facts.cidr
    # Without leave to attach to other processes, as in most containers, it fails and says so at length.
    found = [("mca", "btl_vader_single_copy_mechanism", "none")]
    if hosts == 1:
        return [*found, ("mca", "plm", "isolated")]
    found += [
        ("mca", "plm", "rsh"),
        ("mca", "plm_rsh_agent", " ".join(start.facts.rsh)),
        ("mca", "plm_rsh_no_tree_spawn", "1"),
        ("mca", "plm_rsh_num_concurrent", str(max(_AT_ONCE, hosts))),
        ("mca", "orte_leave_session_attached", "1"),
        ("mca", "orte_abort_on_non_zero_status", "1"),
    ]
    if cidr:
        found += [("mca", "btl_tcp_if_include", cidr), ("mca", "oob_tcp_if_include", cidr)]
    return found


def _five(start: Start) -> list[tuple[str, str, str]]:
    hosts, cidr = len(start.topology.hosts), start.facts.cidr
    found = [("mca", "smsc", "^cma")]
    if hosts == 1:
        return found
    found += [
        ("prtemca", "plm", "ssh"),
        ("prtemca", "plm_ssh_agent", " ".join(start.facts.rsh)),
        ("prtemca", "plm_ssh_no_tree_spawn", "1"),
        ("prtemca", "plm_ssh_num_concurrent", str(max(_AT_ONCE, hosts))),
    ]
    if cidr:
        found += [("mca", "btl_tcp_if_include", cidr), ("prtemca", "prte_if_include", cidr)]
    return found
