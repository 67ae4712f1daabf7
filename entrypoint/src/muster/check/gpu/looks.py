"""The look of each check, by its name. Effects: those of the look; reads the image's manifest and the table of instances."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from muster.check.evidence import once
from muster.check.finding import Finding, Here
from muster.check.gpu import fit, health, links, state
from muster.check.gpu.asking import Look, ask, look_at
from muster.check.gpu.judging import Rule, over
from muster.check.gpu.limits import MEMORY_PAUSE_S, MEMORY_WAIT_S
from muster.plan.instances import read_instances


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
    return state.memory_in_time(first, MEMORY_WAIT_S, MEMORY_PAUSE_S, lambda: ask(here))


LOOKS: Mapping[str, Callable[[Here], Finding]] = {
    "nvml": lambda here: fit.nvml(look_at(here)),
    "count": _count,
    "lost": lambda here: health.lost(look_at(here)),
    "recovery": _each(health.recovery),
    "ecc": _each(health.uncorrected),
    "ecc_corrected": _each(health.corrected),
    "ecc_mode": _ecc_mode,
    "remap": _each(health.remap),
    "pages": _each(health.pages),
    "xid": lambda here: health.xid(look_at(here)),
    "clocks": _each(state.clocks),
    "temperature": _each(state.temperature),
    "persistence": _each(state.persistence),
    "nvlink": _nvlink,
    "nvlink_errors": _each(links.nvlink_errors),
    "fabric": _each(links.fabric),
    "pcie": _each(links.pcie),
    "memory": _memory,
    "driver": _driver,
    "arch": _arch,
}
