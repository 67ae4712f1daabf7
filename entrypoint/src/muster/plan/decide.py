"""What is decided for this host before its plan is written: launcher, ranks, meeting point. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from muster.contract.groups import make_groups
from muster.contract.precedence import Choice, choose
from muster.errors import LaunchError, PlanError
from muster.model import Code, Job
from muster.plan import smddp
from muster.plan.facts import Facts
from muster.plan.launchers import BUILT, Launcher
from muster.plan.mesh import MeshChoice, choose_mesh
from muster.plan.mpi_options import MpiOptions, asked_options
from muster.plan.start import Start
from muster.plan.topology import Topology, make_topology
from muster.settings import Settings

_ASKED_BY_SDK = {
    "sagemaker_mpi_enabled": "mpirun",
    "sagemaker_pytorch_ddp_enabled": "mpirun",
    "sagemaker_torch_distributed_enabled": "torchrun",
    "sagemaker_distributed_dataparallel_enabled": "mpirun",
}
"""The SDK's `distribution=`, in the order in which AWS's toolkit looks (contract.md 4.1)."""


@dataclass(frozen=True)
class Decided:
    """What the plan of a host is written from."""

    name: str
    """The launcher's."""
    launcher: Launcher
    why: str
    """How the launcher was chosen, in one line."""
    outside: bool
    """Whether this host is in none of the groups that train together."""
    start: Start
    extras: smddp.Extras
    mesh: MeshChoice


def decide(
    job: Job, code: Code, settings: Settings, facts: Facts, inherited: Mapping[str, str]
) -> Decided:
    """What this host's plan will say.

    Raises:
        PlanError: the launcher is unknown or can't be used here, or what it is to be told can't.
        LaunchError: the port on which the ranks meet can't be used.
    """
    world = make_groups(job).world
    outside = job.current_host not in world
    topology = make_topology(job, settings, facts.nprocs)
    if outside:
        chosen = Choice("plain", topology.nproc_source, None)
    else:
        chosen = _choose_launcher(job, code, settings)
    name, launcher = str(chosen.value), BUILT[str(chosen.value)]
    topology = _fitting(topology, name, job, settings, facts)
    start = Start(
        topology=topology,
        facts=facts,
        master_addr=_master_addr(world, settings),
        addresses=settings.addresses,
        options=asked_options(job, settings, inherited) if name == "mpirun" else MpiOptions(),
        controller=settings.horovod_controller,
        inherited=inherited,
    )
    return Decided(
        name,
        launcher,
        chosen.conflict or f"launcher {name} ({chosen.source})",
        outside,
        start,
        extras=smddp.extras(job, settings, start) if name == "mpirun" else smddp.Extras(),
        mesh=choose_mesh(job, topology, shared=not launcher.one_a_host),
    )


def _choose_launcher(job: Job, code: Code, settings: Settings) -> Choice[str]:
    """The launcher that is asked for: by the job, else by the entry point's kind, else the image.

    Raises:
        PlanError: it is none.
    """
    asked = [
        (launcher, key)
        for key, launcher in _ASKED_BY_SDK.items()
        if job.reserved.get(key, "").lower() == "true"
    ]
    chosen = choose("launcher", (settings.launcher, "MUSTER_LAUNCHER"), *asked)
    if chosen.value is None and not code.is_python:
        # It most likely starts ranks itself; under torchrun each of its ranks would.
        why = "the entry point is no Python file, and the job names none"
        chosen = Choice("cluster", why, None)
    elif chosen.value is None:
        chosen = Choice(settings.default_launcher, "the default", None)
    if chosen.value in BUILT:
        return chosen
    what = f"unknown launcher {chosen.value!r} ({chosen.source})"
    raise PlanError(what, f"Set MUSTER_LAUNCHER to one of {', '.join(BUILT)}.")


def _master_addr(world: tuple[str, ...], settings: Settings) -> str:
    if len(world) == 1:
        # The container's hostname need not resolve, and nobody else has to find it.
        return "127.0.0.1"
    return settings.addresses.get(world[0], world[0])


def _fitting(topology: Topology, name: str, job: Job, settings: Settings, facts: Facts) -> Topology:
    """The topology as the launcher has it. Raises PlanError and LaunchError where it can't work here."""
    launcher = BUILT[name]
    if launcher.meets:
        _refuse_port_trouble(job, facts)
    else:
        topology = dataclasses.replace(topology, nproc=1, nproc_source="launcher plain", nprocs=())
    _refuse_more_than_gpus(topology, job, settings)
    _refuse_exec_of_several(name, launcher, topology, settings)
    return topology


def _refuse_port_trouble(job: Job, facts: Facts) -> None:
    if facts.port_trouble:
        what = f"port {facts.master_port}, on which the ranks meet, {facts.port_trouble}"
        remedy = "End what holds it, or set MUSTER_MASTER_PORT to another one for all hosts."
        raise LaunchError(f"{what} (host {job.current_host})", remedy)


def _refuse_more_than_gpus(topology: Topology, job: Job, settings: Settings) -> None:
    """NCCL fails on two ranks of one GPU, minutes later and in other words."""
    gpus = job.machine.gpus
    if topology.nproc > gpus > 0 and not settings.oversubscribe:
        what = f"{topology.nproc} ranks a host ({topology.nproc_source}) on {gpus} visible GPUs"
        remedy = "Start no more ranks than GPUs, or allow it: MUSTER_OVERSUBSCRIBE=1."
        raise PlanError(what, remedy)


def _refuse_exec_of_several(
    name: str, launcher: Launcher, topology: Topology, settings: Settings
) -> None:
    """Nobody would be left to start the other hosts' ranks."""
    if launcher.from_one_host and settings.exec_only and len(topology.hosts) > 1:
        what = f"launcher {name} on several hosts can't be had with MUSTER_EXEC=1"
        raise PlanError(what, "muster itself starts the other hosts' ranks: leave MUSTER_EXEC out.")
