"""Who is which rank. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from muster.contract.groups import make_groups
from muster.errors import PlanError
from muster.model import Job
from muster.settings import Settings

_SENT = "sagemaker_mpi_num_of_processes_per_host"


@dataclass(frozen=True)
class Topology:
    """The ranks of the job: those of the first host come first, and so on."""

    hosts: tuple[str, ...]
    node_rank: int
    nproc: int
    nproc_source: str
    nprocs: tuple[int, ...] = ()
    """Of each host, where that is known: groups may have different GPUs."""

    @property
    def world_size(self) -> int:
        return sum(self.nprocs) if self.nprocs else len(self.hosts) * self.nproc


def make_topology(job: Job, settings: Settings, nprocs: tuple[int, ...] = ()) -> Topology:
    """The topology as this host sees it; all hosts of the world come to the same.

    Args:
        job: the job.
        settings: the harness's settings.
        nprocs: what the hosts of the world have told each other.

    A host outside the groups that the job names for its distribution is a world of its own.

    Raises:
        PlanError: processes per host is not a whole number from 1, or a group is unknown.
    """
    world = make_groups(job).world
    if job.current_host not in world:
        return Topology((job.current_host,), 0, 1, f"group {job.group} is not in the distribution")
    nproc, source = _nproc(job, settings)
    return Topology(world, world.index(job.current_host), nproc, source, nprocs)


def _nproc(job: Job, settings: Settings) -> tuple[int, str]:
    sent = job.reserved.get(_SENT)
    if settings.nproc is not None:
        lost = f", not the {sent} of {_SENT}" if sent not in (None, str(settings.nproc)) else ""
        return settings.nproc, f"MUSTER_NPROC{lost}"
    if sent is not None:
        if not sent.isdecimal() or int(sent) < 1:
            raise PlanError(f"hyperparameter {_SENT}={sent!r} is not a whole number from 1")
        return int(sent), _SENT
    if job.machine.gpus:
        return job.machine.gpus, "visible GPUs"
    return 1, "no GPU"
