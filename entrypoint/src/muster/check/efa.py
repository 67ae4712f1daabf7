"""Whether NCCL can use EFA, and would: without it, it takes TCP in silence, at a tenth of the speed or less.

Deciding is pure; fabric.py looks.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.check.fabric import LOCKED, Fabric, fabric
from muster.check.finding import Check, Finding, Here, by_all, passed, skipped
from muster.check.remedies import SAME_MACHINES

_GIB = 2**30
_NO_DEVICES = (
    "Give the instance back, or by hand `docker run --device=/dev/infiniband`; "
    "MUSTER_EFA=off goes on over TCP."
)
_NO_PLUGIN = (
    "Use a GPU image of muster's with EFA, or put the folder of libnccl-net.so into /etc/ld.so.conf.d and run "
    "ldconfig; MUSTER_EFA=off goes on over TCP."
)
_LOCK_MORE = "`docker run --ulimit memlock=-1`; on SageMaker the platform sets it."


@dataclass(frozen=True)
class Wanted:
    """What the job wants of EFA."""

    mode: str
    """auto, require or off."""
    used: bool
    """Whether its ranks would use it: GPUs on several hosts."""

    @property
    def required(self) -> bool:
        return self.mode == "require"


def wanted(here: Here) -> Wanted:
    """What this job wants."""
    job = here.job
    return Wanted(here.settings.efa, used=len(job.hosts) > 1 and job.machine.gpus > 0)


def judge_devices(found: Fabric, want: Wanted) -> Finding:
    """Whether the devices are all here, and can be opened."""
    if want.mode == "off":
        return skipped("MUSTER_EFA=off")
    count, expected = len(found.devices), found.expected
    if not count and not expected and not want.required:
        return skipped("no EFA device, and none is expected of this instance")
    needed = expected or 1
    of = f" of {expected}" if expected else ""
    evidence = f"{count}{of} EFA devices, {found.nodes} device files"
    if found.offered is not None:
        evidence += f", libfabric offers {found.offered}"
    lowest = min(found.nodes, count if found.offered is None else found.offered)
    if count >= needed and lowest >= count:
        return passed(evidence)
    # On one host NCCL needs none of them.
    return Finding("FAIL" if want.used or want.required else "WARN", evidence, _NO_DEVICES)


def judge_plugin(found: Fabric, want: Wanted) -> Finding:
    """Whether NCCL would find EFA's plugin."""
    if want.mode == "off":
        return skipped("MUSTER_EFA=off")
    if not (found.devices or found.expected or want.required):
        return skipped("no EFA here")
    if found.plugin:
        return passed(f"the loader finds {found.plugin}")
    evidence = "the loader finds no libnccl-net.so: NCCL would take TCP"
    return Finding("FAIL" if want.required else "WARN", evidence, _NO_PLUGIN)


def judge_locked(found: Fabric, want: Wanted) -> Finding:
    """Whether EFA's buffers may be locked in memory."""
    if want.mode == "off" or not found.devices:
        return skipped("no EFA here" if want.mode != "off" else "MUSTER_EFA=off")
    if found.locked < 0:
        return passed("any amount of memory may be locked")
    evidence = f"{found.locked / _GIB:.3g} GiB of memory may be locked"
    if found.locked >= LOCKED:
        return passed(evidence)
    return Finding("FAIL" if want.required else "WARN", evidence, _LOCK_MORE)


def _devices(here: Here) -> Finding:
    return judge_devices(fabric(here), wanted(here))


def _plugin(here: Here) -> Finding:
    return judge_plugin(fabric(here), wanted(here))


def _locked(here: Here) -> Finding:
    return judge_locked(fabric(here), wanted(here))


CHECKS = (
    Check(
        "efa.devices",
        "fast",
        "EFA devices by vendor and device, their files in /dev/infiniband, and what libfabric offers, against the instance's number",
        _devices,
        limits="FAIL for fewer than the instance has, or fewer files than devices; WARN on one host, which needs none",
        source="instance-profiles.conf of awsome-distributed-training; eks-node-monitoring-agent's way to tell EFA by its ids",
        remedy=_NO_DEVICES,
        timeout_s=12.0,
    ),
    Check(
        "efa.plugin",
        "fast",
        "EFA's plugin for NCCL, found as the loader finds it",
        _plugin,
        limits="WARN where it is missing, FAIL with MUSTER_EFA=require",
        source="NVIDIA-NeMo/RL#1973: NCCL takes sockets in silence",
        remedy=_NO_PLUGIN,
        timeout_s=12.0,
    ),
    Check(
        "efa.memory",
        "fast",
        "How much memory a process may lock, on EFA hosts",
        _locked,
        limits="WARN below 16 GiB, FAIL with MUSTER_EFA=require",
        source="awsome-distributed-training, 2.gpu-cluster-healthcheck",
        remedy=_LOCK_MORE,
        timeout_s=12.0,
    ),
    Check(
        "efa.same",
        "fast",
        "The same number of EFA devices on all hosts of an instance group",
        by_all,
        limits="FAIL where it differs",
        source="awsome-distributed-training, 2.gpu-cluster-healthcheck",
        together=True,
        remedy=SAME_MACHINES,
    ),
)
