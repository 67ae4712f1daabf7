"""The checks of GPUs, as rows of the registry. Effects: those of the looks, which CPU jobs don't even import."""

from __future__ import annotations

from collections.abc import Callable

from muster.check.finding import Check, Finding, Here
from muster.check.gpu.limits import (
    CHECK_S,
    CORRECTED,
    LINK_ERRORS,
    MARGIN,
    MEMORY_WAIT_S,
    PAGES,
    ROWS,
    TIMEOUT_S,
)
from muster.check.gpu.presence import absence
from muster.check.gpu.remedies import (
    ECC_ON,
    HOT,
    IN_USE,
    MANAGER,
    MAY_FAIL,
    NARROW,
    OTHER_TAG,
    REPLACE,
    SLOW,
    WEAK_LINK,
    WRONG_ENTRY,
)


def _look(name: str) -> Callable[[Here], Finding]:
    def look(here: Here) -> Finding:
        missing = absence(here)
        if missing:
            return missing
        from muster.check.gpu.looks import LOOKS  # noqa: PLC0415  (5 ms, where there is a GPU)

        return LOOKS[name](here)

    return look


def _row(
    name: str, what: str, limits: str, source: str, remedy: str = "", timeout_s: float = CHECK_S
) -> Check:
    look = _look(name)
    return Check(f"gpu.{name}", "fast", what, look, limits, source, timeout_s, remedy=remedy)


_NVML = "https://docs.nvidia.com/deploy/nvml-api/"
_DCGM = "NVIDIA DCGM"
_AZURE = "Azure's HPC health checks"

CHECKS = (
    _row(
        "nvml",
        "Whether NVIDIA's driver answers, asked by a process of its own",
        f"UNKNOWN after {TIMEOUT_S:g} s, and then all below that it had not yet told of",
        "muster's own: a wedged driver answers no call, for ever",
    ),
    _row(
        "count",
        "The number of GPUs against the instance type's, and what CUDA_VISIBLE_DEVICES names",
        "FAIL for fewer than the type has, WARN for a name that isn't here, SKIP for an unknown type",
        "https://aws.amazon.com/sagemaker/ai/pricing/",
        f"{REPLACE} {WRONG_ENTRY}",
    ),
    _row(
        "lost",
        "GPUs that have fallen off the bus",
        "FAIL when any question gets GPU_IS_LOST or RESET_REQUIRED, or a basic one UNKNOWN",
        f"{_NVML}; XID 79",
        REPLACE,
    ),
    _row(
        "recovery",
        "What the driver itself asks for (field 230, drivers of 570 and newer)",
        "FAIL for a reset or a reboot, WARN for DRAIN_P2P, IMEX and what isn't known",
        "NVIDIA's nvidia-resiliency-ext; Azure's cyclecloud-healthagent",
        REPLACE,
    ),
    _row(
        "ecc",
        "Errors in a GPU's memory that lost data, since the driver was loaded",
        "FAIL above 0",
        f"{_DCGM}; Meta's GCM",
        REPLACE,
    ),
    _row(
        "ecc_corrected",
        "Errors in a GPU's memory that were put right, since the driver was loaded",
        f"WARN above {CORRECTED}",
        _AZURE,
        MAY_FAIL,
    ),
    _row(
        "ecc_mode",
        "Whether errors in a GPU's memory would be seen",
        "WARN when ECC is off; FAIL on ml.p instances",
        "imbue's cluster-health",
        f"{REPLACE} {ECC_ON}",
    ),
    _row(
        "remap",
        "Rows of a GPU's memory that were replaced (A100 and newer)",
        f"FAIL for a failed replacement or {ROWS} rows, WARN for a pending one or a bank with none left",
        f"{_DCGM}; {_AZURE}",
        REPLACE,
    ),
    _row(
        "pages",
        "Pages of a GPU's memory that are out of use (GPUs older than the A100)",
        f"FAIL from {PAGES} on, or for a pending one",
        f"{_DCGM} (63); {_AZURE} (62)",
        REPLACE,
    ),
    _row(
        "xid",
        "XID errors, by which the driver tells of what goes wrong on a GPU: while the ranks run, each is logged and kept in the record",
        "always SKIP before the job: a container can't see them; then one of the hardware ends the job, "
        "`warn` only logs it, `fail` also ends it for 46 and 109, which may be the machine; `off` watches nothing",
        _NVML,
    ),
    _row(
        "clocks",
        "What slows a GPU down at rest",
        "WARN for hardware slowdown, heat, power brake (mask 0xE8)",
        "Azure's cyclecloud-healthagent",
        SLOW,
    ),
    _row(
        "temperature",
        "A GPU's temperature against the one at which it slows down",
        f"WARN within {MARGIN} C of it",
        "muster's own; the temperature is NVML's",
        HOT,
    ),
    _row(
        "persistence",
        "Whether the driver stays loaded between programs",
        "none: for the record",
        _NVML,
    ),
    _row(
        "nvlink",
        "NVLinks that are up, against the instance type's and the other GPUs'",
        "FAIL for fewer",
        f"NVIDIA's data sheets (A100 12, H100 and H200 18); {_AZURE}",
        REPLACE,
    ),
    _row(
        "nvlink_errors",
        "What NVLinks have had to repeat since the driver was loaded",
        f"WARN from {LINK_ERRORS} replays and recoveries on",
        "imbue's cluster-health",
        WEAK_LINK,
    ),
    _row(
        "fabric",
        "Whether a GPU has joined the NVSwitch fabric (H100 and newer)",
        "FAIL when it has not, WARN for faults in its health mask",
        f"{_NVML}; AWS's eks-node-monitoring-agent",
        MANAGER,
    ),
    _row(
        "pcie",
        "The width of a GPU's way to the host",
        "WARN when it is less than the most that both ends can",
        "imbue's cluster-health",
        NARROW,
    ),
    _row(
        "memory",
        "Whether somebody else holds a GPU's memory",
        f"after {MEMORY_WAIT_S:g} s FAIL for a process, WARN for 512 MiB or more of nobody's",
        "NVIDIA's nvidia-resiliency-ext; Meta's GCM",
        IN_USE,
        CHECK_S + MEMORY_WAIT_S,
    ),
    _row(
        "driver",
        "The driver's version against the image's CUDA",
        "FAIL when it is too old; names the tag that works",
        "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
        OTHER_TAG,
    ),
    _row(
        "arch",
        "A GPU's compute capability against what the image's torch is built for",
        "FAIL when there is no code for it; names the tag that works",
        "https://developer.nvidia.com/cuda-gpus",
        OTHER_TAG,
    ),
)
