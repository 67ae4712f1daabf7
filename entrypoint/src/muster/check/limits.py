"""Limits of the container's processes: open files, locked memory. Effects: asks the kernel, looks at /sys.

Where there is EFA, efa.memory speaks of locked memory: it knows whether the job uses EFA, and so one fault is told once.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass

from muster.check.fabric import LOCKED, devices
from muster.check.figures import counted, memory
from muster.check.finding import Check, Finding, Here, passed
from muster.check.reading import names

FILES_AT_LEAST, FILES_A_RANK = 512, 2


@dataclass(frozen=True)
class Limits:
    """The soft limits, which programs meet; -1 for none."""

    files: int
    locked: int
    """Bytes."""


def _limits(here: Here) -> Finding:
    files, locked = (
        resource.getrlimit(which)[0] for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK)
    )
    world = len(here.job.hosts) * here.nproc
    return judge_limits(Limits(files, locked), world, infiniband=_has_infiniband(here))


def _has_infiniband(here: Here) -> bool:
    """Whether there are devices whose buffers are locked, and none of EFA."""
    return bool(names(f"{here.sys}/class/infiniband")) and not devices(here)


def judge_limits(limits: Limits, world: int, *, infiniband: bool) -> Finding:
    """Whether sockets to all ranks, and InfiniBand's buffers, are allowed."""
    need = FILES_AT_LEAST + FILES_A_RANK * world
    evidence = f"{_told(limits.files)} open files for a job of {counted(world, 'rank')}"
    options = []
    if 0 <= limits.files < need:
        options.append(f"--ulimit nofile={max(65536, need)}")
    if infiniband:
        locked = memory(limits.locked) if limits.locked >= 0 else "any"
        evidence += f", {locked} of locked memory for InfiniBand"
        if 0 <= limits.locked < LOCKED:
            options.append("--ulimit memlock=-1")
    if not options:
        return passed(evidence)
    return Finding("WARN", evidence, f"`docker run {' '.join(options)}`; by hand `ulimit`.")


def _told(limit: int) -> str:
    return str(limit) if limit >= 0 else "any number of"


CHECKS = (
    Check(
        "host.limits",
        "fast",
        "The limits of open files and, where there is InfiniBand, of locked memory; with EFA it is efa.memory that speaks of it",
        _limits,
        limits=f"WARN below {FILES_AT_LEAST} + {FILES_A_RANK} a rank of the job; locked below 16 GiB",
        source="gloo keeps a socket to each rank; AWS's awsome-distributed-training, its EFA check",
        remedy="`docker run --ulimit nofile=65536 --ulimit memlock=-1`",
    ),
)
