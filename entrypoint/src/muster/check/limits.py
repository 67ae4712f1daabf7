"""Limits of the container's processes: open files, locked memory. Effects: asks the kernel, looks at /sys."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass

from muster.check.figures import counted, memory
from muster.check.finding import Check, Finding, Here, passed

FILES_AT_LEAST, FILES_A_RANK = 512, 2
LOCKED_FOR_EFA = 16 * 2**30


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
    return judge_limits(Limits(files, locked), world, fabric=_has_fabric(here.sys))


def _has_fabric(sys: str) -> bool:
    """Whether there are devices whose buffers are locked: EFA, InfiniBand."""
    try:
        return bool(os.listdir(f"{sys}/class/infiniband"))
    except OSError:
        return False


def judge_limits(limits: Limits, world: int, *, fabric: bool) -> Finding:
    """Whether sockets to all ranks, and a fabric's buffers, are allowed."""
    need = FILES_AT_LEAST + FILES_A_RANK * world
    evidence = f"{_told(limits.files)} open files for a job of {counted(world, 'rank')}"
    options = []
    if 0 <= limits.files < need:
        options.append(f"--ulimit nofile={max(65536, need)}")
    if fabric:
        locked = memory(limits.locked) if limits.locked >= 0 else "any"
        evidence += f", {locked} of locked memory for EFA"
        if 0 <= limits.locked < LOCKED_FOR_EFA:
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
        "The limits of open files and, where there is EFA or InfiniBand, of locked memory",
        _limits,
        limits=f"WARN below {FILES_AT_LEAST} + {FILES_A_RANK} a rank of the job; locked below 16 GiB",
        source="gloo keeps a socket to each rank; AWS's awsome-distributed-training, its EFA check",
        remedy="`docker run --ulimit nofile=65536 --ulimit memlock=-1`",
    ),
)
