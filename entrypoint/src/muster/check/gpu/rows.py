"""The checks of GPUs, as rows of the registry. Effects: those of the look; reads the image's manifest and the table of instances."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from muster.check.evidence import once
from muster.check.finding import Check, Finding, Here
from muster.check.gpu import fit, health, links, state
from muster.check.gpu.asking import CHECK_S, TIMEOUT_S, Look, ask, look_at
from muster.check.gpu.judging import Rule, over
from muster.plan.instances import read_instances

_MEMORY_WAIT_S, _MEMORY_PAUSE_S = 30.0, 2.0


def image_cuda(folder: str = sys.prefix) -> Mapping[str, Any]:
    """What the image's manifest says of CUDA; empty for an image without it, and outside of one."""
    try:
        with open(os.path.join(folder, "manifest.json"), "rb") as file:
            found = json.load(file)["cuda"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _each(rule: Rule) -> Callable[[Here], Finding]:
    return lambda here: over(look_at(here), rule)


def _instances(look: Look, here: Here) -> Mapping[str, Any]:
    """The table of instances, where there is a GPU to compare with it."""
    return {} if look.trouble else once(here, "instances", read_instances)


def _count(here: Here) -> Finding:
    look = look_at(here)
    return fit.count(look, here, _instances(look, here))


def _driver(here: Here) -> Finding:
    look = look_at(here)
    return fit.driver(look, image_cuda(), _instances(look, here))


def _arch(here: Here) -> Finding:
    look = look_at(here)
    return fit.arch(look, image_cuda(), _instances(look, here))


def _nvlink(here: Here) -> Finding:
    look = look_at(here)
    return links.nvlink(look, here, _instances(look, here))


def _ecc_mode(here: Here) -> Finding:
    return over(look_at(here), lambda gpu: health.ecc_mode(gpu, here))


def _memory(here: Here) -> Finding:
    first = look_at(here)
    return state.memory_in_time(first, _MEMORY_WAIT_S, _MEMORY_PAUSE_S, lambda: ask(here))


def _row(name: str, what: str, look: Callable[[Here], Finding], limits: str, source: str) -> Check:
    return Check(f"gpu.{name}", "fast", what, look, limits, source, timeout_s=CHECK_S)


_NVML = "https://docs.nvidia.com/deploy/nvml-api/"
_DCGM = "NVIDIA DCGM"
_AZURE = "Azure's HPC health checks"

CHECKS = (
    _row(
        "nvml",
        "Whether NVIDIA's driver answers, asked by a process of its own",
        lambda here: fit.nvml(look_at(here)),
        f"UNKNOWN after {TIMEOUT_S:g} s, and then all below that it had not yet told of",
        "muster's own: a wedged driver answers no call, for ever",
    ),
    _row(
        "count",
        "The number of GPUs against the instance type's, and what CUDA_VISIBLE_DEVICES names",
        _count,
        "FAIL for fewer than the type has, WARN for a name that isn't here, SKIP for an unknown type",
        "https://aws.amazon.com/sagemaker/ai/pricing/",
    ),
    _row(
        "lost",
        "GPUs that have fallen off the bus",
        lambda here: health.lost(look_at(here)),
        "FAIL when any question gets GPU_IS_LOST or RESET_REQUIRED, or a basic one UNKNOWN",
        f"{_NVML}; XID 79",
    ),
    _row(
        "recovery",
        "What the driver itself asks for (field 230, drivers of 570 and newer)",
        _each(health.recovery),
        "FAIL for a reset or a reboot, WARN for DRAIN_P2P, IMEX and what isn't known",
        "NVIDIA's nvidia-resiliency-ext; Azure's cyclecloud-healthagent",
    ),
    _row(
        "ecc",
        "Errors in a GPU's memory that lost data, since the driver was loaded",
        _each(health.uncorrected),
        "FAIL above 0",
        f"{_DCGM}; Meta's GCM",
    ),
    _row(
        "ecc_corrected",
        "Errors in a GPU's memory that were put right, since the driver was loaded",
        _each(health.corrected),
        f"WARN above {health.CORRECTED_LIMIT}",
        _AZURE,
    ),
    _row(
        "ecc_mode",
        "Whether errors in a GPU's memory would be seen",
        _ecc_mode,
        "WARN when ECC is off; FAIL on ml.p instances",
        "imbue's cluster-health",
    ),
    _row(
        "remap",
        "Rows of a GPU's memory that were replaced (A100 and newer)",
        _each(health.remap),
        f"FAIL for a failed replacement or {health.ROWS_LIMIT} rows, WARN for a pending one or a bank with none left",
        f"{_DCGM}; {_AZURE}",
    ),
    _row(
        "pages",
        "Pages of a GPU's memory that are out of use (GPUs older than the A100)",
        _each(health.pages),
        f"FAIL from {health.PAGES_LIMIT} on, or for a pending one",
        f"{_DCGM} (63); {_AZURE} (62)",
    ),
    _row(
        "xid",
        "XID errors before the job",
        lambda here: health.xid(look_at(here)),
        "always SKIP: a container can't see them",
        _NVML,
    ),
    _row(
        "clocks",
        "What slows a GPU down at rest",
        _each(state.clocks),
        "WARN for hardware slowdown, heat, power brake (mask 0xE8)",
        "Azure's cyclecloud-healthagent",
    ),
    _row(
        "temperature",
        "A GPU's temperature against the one at which it slows down",
        _each(state.temperature),
        f"WARN within {state.MARGIN} C of it",
        "muster's own; the temperature is NVML's",
    ),
    _row(
        "persistence",
        "Whether the driver stays loaded between programs",
        _each(state.persistence),
        "none: for the record",
        _NVML,
    ),
    _row(
        "nvlink",
        "NVLinks that are up, against the instance type's and the other GPUs'",
        _nvlink,
        "FAIL for fewer",
        f"NVIDIA's data sheets (A100 12, H100 and H200 18); {_AZURE}",
    ),
    _row(
        "nvlink_errors",
        "What NVLinks have had to repeat since the driver was loaded",
        _each(links.nvlink_errors),
        f"WARN from {links.LINK_ERRORS} replays and recoveries on",
        "imbue's cluster-health",
    ),
    _row(
        "fabric",
        "Whether a GPU has joined the NVSwitch fabric (H100 and newer)",
        _each(links.fabric),
        "FAIL when it has not, WARN for faults in its health mask",
        f"{_NVML}; AWS's eks-node-monitoring-agent",
    ),
    _row(
        "pcie",
        "The width of a GPU's way to the host",
        _each(links.pcie),
        "WARN when it is less than the most that both ends can",
        "imbue's cluster-health",
    ),
    dataclasses.replace(
        _row(
            "memory",
            "Whether somebody else holds a GPU's memory",
            _memory,
            f"after {_MEMORY_WAIT_S:g} s FAIL for a process, WARN for 512 MiB or more of nobody's",
            "NVIDIA's nvidia-resiliency-ext; Meta's GCM",
        ),
        timeout_s=CHECK_S + _MEMORY_WAIT_S,
    ),
    _row(
        "driver",
        "The driver's version against the image's CUDA",
        _driver,
        "FAIL when it is too old; names the tag that works",
        "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
    ),
    _row(
        "arch",
        "A GPU's compute capability against what the image's torch is built for",
        _arch,
        "FAIL when there is no code for it; names the tag that works",
        "https://developer.nvidia.com/cuda-gpus",
    ),
)
