"""What the log says of a plan: what was decided, and what may surprise. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from muster.model import Job
from muster.plan.decide import Decided
from muster.plan.facts import Facts
from muster.plan.mpi_options import options_text
from muster.plan.topology import Topology
from muster.settings import Settings


def about_the_plan(
    job: Job, settings: Settings, decided: Decided, env: Mapping[str, str], *, direct: bool
) -> tuple[str, ...]:
    """One line each.

    Args:
        job: the job.
        settings: the harness's settings.
        decided: what its plan is written from.
        env: the launcher's variables.
        direct: whether the hosts were added to NO_PROXY.
    """
    start = decided.start
    return (
        *decided.extras.notes,
        decided.why,
        *decided.mesh.notes,
        *_unused_options(job, settings, decided.name),
        *_about_the_host(job, decided, env),
        *(["NO_PROXY extended by the job's hosts"] if direct else []),
        *_another_port(settings, start.facts),
    )


def _unused_options(job: Job, settings: Settings, name: str) -> tuple[str, ...]:
    text, source = options_text(job, settings)
    if not text or name in ("mpirun", "plain"):
        return ()
    return (f"{source} is not used: it is for mpirun, and the launcher is {name}",)


def _about_the_host(job: Job, decided: Decided, env: Mapping[str, str]) -> tuple[str, ...]:
    """What was decided for this host and its ranks, and what may surprise them."""
    topology, asked = decided.start.topology, decided.start.options.variables
    whose = "ranks a host, as the script is told" if decided.name == "cluster" else "ranks a host"
    defaults = {name: value for name, value in env.items() if name not in asked}
    return (
        f"{whose}: {topology.nproc} ({topology.nproc_source})",
        *_shared_pipes(job, topology),
        *_defaults(defaults),
        # The user's own, by name: a value may be a secret.
        *([f"set by mpirun's options: {', '.join(asked)}"] if asked else []),
    )


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


def _another_port(settings: Settings, facts: Facts) -> tuple[str, ...]:
    if facts.master_port == settings.master_port:
        return ()
    return (f"port {settings.master_port} is taken: the ranks meet at another one",)
