"""The plan of one host, from the job, its code and the facts. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from muster.contract import argv
from muster.contract.exports import shared_names
from muster.contract.groups import make_groups
from muster.contract.precedence import Choice, choose
from muster.errors import LaunchError, PlanError
from muster.model import Code, Job, Plan
from muster.plan import environment, smddp
from muster.plan.facts import Facts
from muster.plan.launchers import BUILT, Launcher
from muster.plan.mesh import choose_mesh
from muster.plan.mpi_options import MpiOptions, read_options
from muster.plan.reserved import review
from muster.plan.start import Start
from muster.plan.topology import Topology, make_topology
from muster.settings import Settings

_OPTIONS_BY_SDK = (
    "sagemaker_mpi_custom_mpi_options",
    "sagemaker_distributed_dataparallel_custom_mpi_options",
)
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
        PlanError: the launcher is unknown or can't be used here, or a
            reserved hyperparameter asks for what can't be done.
        LaunchError: the port on which the ranks meet can't be used.
    """
    remarks = review(job.reserved, inherited)
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
        options=_mpi_options(job, settings, inherited) if name == "mpirun" else MpiOptions(),
        controller=settings.horovod_controller,
        inherited=inherited,
    )
    arguments = argv.arguments(job.hyperparameters, settings.args_mode) + job.program_args
    extras = smddp.extras(job, settings, start) if name == "mpirun" else smddp.Extras()
    script = extras.wrapper + code.command + arguments
    mesh = choose_mesh(job, topology, shared=not launcher.one_a_host)
    told = launcher.from_one_host and not settings.exec_only
    env = environment.launcher_env(job, topology, inherited) | launcher.env(start) | extras.env
    direct = environment.no_proxy(job, inherited) if settings.extend_no_proxy else {}
    meeting_point = (start.master_addr, facts.master_port)
    return Plan(
        launcher=name,
        host=job.current_host,
        hosts=topology.hosts,
        node_rank=topology.node_rank,
        nproc=1 if launcher.one_a_host else topology.nproc,
        world_size=topology.world_size,
        master_addr=start.master_addr,
        master_port=facts.master_port,
        argv=launcher.command(start) + (() if told else script),
        cwd=code.directory,
        env=env | direct,
        rank_env=environment.rank_env(job, code, arguments, meeting_point, inherited)
        | launcher.rank_env(start)
        | {"MUSTER_IN_WORLD": str(int(not outside))}
        | ({} if launcher.one_a_host else {"MUSTER_RANKS": name})
        | mesh.env,
        rank_argv=script if told else (),
        names={start.addresses[host]: host for host in topology.hosts if host in start.addresses},
        kept=launcher.kept(inherited) if launcher.kept else None,
        shared=not launcher.one_a_host,
        hostfile=launcher.hostfile(start),
        notes=(
            *job.notes,
            *shared_names(job),
            *code.notes,
            *remarks,
            *extras.notes,
            chosen.conflict or f"launcher {name} ({chosen.source})",
            *mesh.notes,
            *_unused_options(job, settings, name),
            *_about_the_host(job, topology, env, start.options.variables),
            *(["NO_PROXY extended by the job's hosts"] if direct else []),
            *_another_port(settings, facts),
        ),
    )


def _mpi_options(job: Job, settings: Settings, inherited: Mapping[str, str]) -> MpiOptions:
    """What the user adds to mpirun. Raises PlanError where it can't be taken."""
    text, source = _options_text(job, settings)
    return read_options(text, source, inherited) if text else MpiOptions()


def _options_text(job: Job, settings: Settings) -> tuple[str, str]:
    """What the user adds to mpirun, and where: MUSTER_MPI_OPTIONS, else what the SDK has sent."""
    if settings.mpi_options is not None:
        return settings.mpi_options, "MUSTER_MPI_OPTIONS"
    return next(
        ((job.reserved[key], key) for key in _OPTIONS_BY_SDK if job.reserved.get(key)), ("", "")
    )


def _unused_options(job: Job, settings: Settings, name: str) -> tuple[str, ...]:
    text, source = _options_text(job, settings)
    if not text or name in ("mpirun", "plain"):
        return ()
    return (f"{source} is not used: it is for mpirun, and the launcher is {name}",)


def _another_port(settings: Settings, facts: Facts) -> tuple[str, ...]:
    if facts.master_port == settings.master_port:
        return ()
    return (f"port {settings.master_port} is taken: the ranks meet at another one",)


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


def _about_the_host(
    job: Job, topology: Topology, env: Mapping[str, str], asked: Mapping[str, str]
) -> tuple[str, ...]:
    """What was decided for this host and its ranks, and what may surprise them."""
    defaults = {name: value for name, value in env.items() if name not in asked}
    return (
        f"ranks a host: {topology.nproc} ({topology.nproc_source})",
        *_shared_pipes(job, topology),
        *_defaults(defaults),
        # The user's own, by name: a value may be a secret.
        *([f"set by mpirun's options: {', '.join(asked)}"] if asked else []),
    )


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


def _shared_pipes(job: Job, topology: Topology) -> tuple[str, ...]:
    """A FIFO gives each record to one reader: several of them would each train on a part."""
    pipes = [channel.name for channel in job.channels if channel.input_mode == "Pipe"]
    if not pipes or topology.nproc == 1:
        return ()
    shared = f"Pipe mode ({', '.join(pipes)}): {topology.nproc} ranks share one FIFO"
    return (f"{shared}: let one rank read, or use FastFile",)


def _defaults(env: Mapping[str, str]) -> tuple[str, ...]:
    values = " ".join(f"{name}={value}" for name, value in env.items())
    return (f"set because unset: {values}",) if values else ()


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
