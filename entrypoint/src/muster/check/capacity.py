"""Processors and memory for this host's ranks. Effects: looks at files, by cgroup.py."""

from __future__ import annotations

import math

from muster.check import cgroup
from muster.check.cgroup import Share
from muster.check.evidence import once
from muster.check.figures import counted, memory
from muster.check.finding import Check, Finding, Here, passed, skipped, unknown
from muster.contract.machine import MORE_SHARED_MEMORY, shared_memory

_GIB = 2**30
SHM_A_RANK = _GIB
MEMORY_A_RANK = _GIB // 2


def _processors(here: Here) -> Finding:
    return judge_processors(_share(here), here.nproc)


def _memory(here: Here) -> Finding:
    return judge_memory(_share(here), here.nproc)


def _shared_memory(here: Here) -> Finding:
    return judge_shm(here.job.machine.shm, shared_memory(f"{here.dev}/shm")[1], here.nproc)


def _share(here: Here) -> Share:
    return once(here, "cgroup", lambda: cgroup.look(here.proc, here.sys))


def judge_processors(share: Share, nproc: int) -> Finding:
    """Whether each rank has a processor of its own."""
    usable, cut = share.visible, ""
    if share.time is not None and share.time < share.visible:
        usable = max(1, math.ceil(share.time))
        cut = f" of {share.visible}: the cgroup has the time of {share.time:g}"
    evidence = f"{counted(nproc, 'rank')} on {counted(usable, 'processor')}{cut}"
    if nproc <= usable:
        return passed(evidence)
    return Finding(
        "WARN", evidence, "Start fewer ranks (MUSTER_NPROC), or give it more processors."
    )


def judge_memory(share: Share, nproc: int) -> Finding:
    """Whether there is room for the ranks before they hold any data."""
    free = share.available
    if share.limit is not None:
        left = max(0, share.limit - share.used)
        free = left if free is None else min(free, left)
    sizes = [size for size in (share.total, share.limit) if size is not None]
    if free is None or not sizes:
        return unknown("neither /proc/meminfo nor the cgroup tells of memory")
    whose = "the cgroup" if share.limit is not None and share.limit == min(sizes) else "the machine"
    need = nproc * MEMORY_A_RANK
    evidence = (
        f"{memory(free)} free of {memory(min(sizes))} ({whose}), "
        f"{counted(nproc, 'rank')} without data need about {memory(need)}"
    )
    if free >= need:
        return passed(evidence)
    return Finding("WARN", evidence, "Start fewer ranks (MUSTER_NPROC), or give it more memory.")


def judge_shm(size: int, free: int, nproc: int) -> Finding:
    """Whether data loaders can hand batches over, and NCCL its buffers."""
    if not size:
        return skipped("there is no /dev/shm, or its size isn't told")
    need = nproc * SHM_A_RANK
    left = "" if size < need or free >= need else f", {memory(free)} of them free"
    evidence = (
        f"/dev/shm has {memory(size)}{left}, {counted(nproc, 'rank')} may need {memory(need)}"
    )
    if min(size, free) >= need:
        return passed(evidence)
    if left:
        return Finding("WARN", evidence, "Remove what lies in /dev/shm, or give it more.")
    return Finding("WARN", evidence, f"Give it more: {MORE_SHARED_MEMORY}.")


CHECKS = (
    Check(
        "host.cpus",
        "fast",
        "Processors that the container may use, by affinity and cgroup, against the ranks here",
        _processors,
        limits="WARN below one a rank",
        source="a rank that computes on the CPU uses one whole",
        remedy="fewer ranks (MUSTER_NPROC), `docker run --cpus`, or a larger instance",
    ),
    Check(
        "host.memory",
        "fast",
        "Free memory, of the machine and of the cgroup, against the ranks here",
        _memory,
        limits="WARN below 512 MiB a rank",
        source="a Python that has imported torch 2.13 holds 217 MiB",
        remedy="fewer ranks, `docker run --memory`, or a larger instance",
    ),
    Check(
        "host.shm",
        "fast",
        "Size and free room of /dev/shm against the ranks here",
        _shared_memory,
        limits="WARN below 1 GiB a rank",
        source="Docker's own 64 MiB is filled by one data-loader worker's batch; NVIDIA/nccl#290",
        remedy='`docker run --shm-size=1g`; SageMaker\'s local modes: `"default-shm-size"`',
    ),
)
