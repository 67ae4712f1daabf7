"""The plan of one host, from the job, its code and the facts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.contract import argv
from muster.contract.exports import shared_names
from muster.contract.groups import make_groups
from muster.errors import PlanError
from muster.model import Code, Job, Plan
from muster.plan import environment, plain, torchrun
from muster.plan.facts import Facts
from muster.plan.reserved import review
from muster.plan.topology import Topology, make_topology
from muster.settings import LAUNCHERS, Settings

Launcher = Callable[[Topology, Facts, str], tuple[str, ...]]

BUILT: dict[str, Launcher] = {"torchrun": torchrun.command, "plain": plain.command}
"""The launchers of this version, each a function to the argv in front of the script."""

_ASKED_BY_SDK = {
    "sagemaker_mpi_enabled": "mpirun",
    "sagemaker_pytorch_ddp_enabled": "mpirun",
    "sagemaker_torch_distributed_enabled": "torchrun",
    "sagemaker_distributed_dataparallel_enabled": "mpirun",
}
"""The SDK's `distribution=`, in the order in which AWS's toolkit looks (contract.md 4.1)."""


def make_plan(
    job: Job, code: Code, settings: Settings, facts: Facts, inherited: Mapping[str, str]
) -> Plan:
    """What this host will run. `inherited` is the container's environment.

    Raises:
        PlanError: the launcher is unknown or not in this version, or can't be used here, or a
            reserved hyperparameter asks for what can't be done.
    """
    remarks = review(job.reserved, inherited)
    topology = make_topology(job, settings)
    world = make_groups(job).world
    if job.current_host not in world:
        launcher, source = "plain", topology.nproc_source
    else:
        launcher, source = _choose_launcher(job, code, settings)
    if launcher == "plain":
        topology = Topology(topology.hosts, topology.node_rank, 1, "launcher plain")
    master_addr = _master_addr(world, settings)
    arguments = argv.MODES[settings.args_mode](job.hyperparameters) + job.program_args
    env = environment.launcher_env(job, topology, inherited)
    return Plan(
        launcher=launcher,
        host=job.current_host,
        hosts=topology.hosts,
        node_rank=topology.node_rank,
        nproc=topology.nproc,
        world_size=topology.world_size,
        master_addr=master_addr,
        master_port=facts.master_port,
        argv=BUILT[launcher](topology, facts, master_addr) + code.command + arguments,
        cwd=code.directory,
        env=env,
        rank_env=environment.rank_env(
            job, code, arguments, (master_addr, facts.master_port), inherited
        ),
        notes=(
            *job.notes,
            *shared_names(job),
            *code.notes,
            *remarks,
            f"launcher {launcher} ({source})",
            f"ranks a host: {topology.nproc} ({topology.nproc_source})",
            *_defaults(env),
        ),
    )


def _defaults(env: Mapping[str, str]) -> tuple[str, ...]:
    values = " ".join(f"{name}={value}" for name, value in env.items())
    return (f"set because unset: {values}",) if values else ()


def _choose_launcher(job: Job, code: Code, settings: Settings) -> tuple[str, str]:
    name, source = _named_launcher(job, code, settings)
    if name in BUILT:
        return name, source
    remedy = f"It has {' and '.join(BUILT)}: set MUSTER_LAUNCHER to one of them."
    if name in LAUNCHERS:
        raise PlanError(f"launcher {name} ({source}) is not in this version", remedy)
    raise PlanError(
        f"unknown launcher {name!r} ({source})", remedy.replace("It", "This version", 1)
    )


def _named_launcher(job: Job, code: Code, settings: Settings) -> tuple[str, str]:
    """The launcher that is asked for, and by what: the job, the entry point's kind, the image."""
    if settings.launcher:
        return settings.launcher, "MUSTER_LAUNCHER"
    for key, launcher in _ASKED_BY_SDK.items():
        if job.reserved.get(key, "").lower() == "true":
            return launcher, key
    if not code.entry.endswith(".py"):
        # It most likely starts ranks itself; under torchrun each of its ranks would.
        return "cluster", "the entry point is no Python file, and the job names none"
    return settings.default_launcher, "the default"


def _master_addr(world: tuple[str, ...], settings: Settings) -> str:
    if len(world) == 1:
        # The container's hostname need not resolve, and nobody else has to find it.
        return "127.0.0.1"
    return settings.addresses.get(world[0], world[0])
