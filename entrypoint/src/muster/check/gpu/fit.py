"""Whether GPUs, driver and image go together. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from muster.check.finding import Finding, Here, passed, skipped, unknown
from muster.check.gpu.asking import Look
from muster.check.gpu.facts import Gpu, Missing
from muster.check.gpu.judging import failed, lacking, over, warned
from muster.check.gpu.remedies import REPLACE, WRONG_ENTRY
from muster.plan.instances import gpus_of

Capability = tuple[int, int]


def nvml(look: Look) -> Finding:
    """Whether the driver answers at all."""
    if look.trouble:
        return look.trouble
    if not look.gpus:
        return skipped("NVML counts no GPU")
    cuda = (
        "?" if isinstance(look.cuda, Missing) else f"{look.cuda // 1000}.{look.cuda % 1000 // 10}"
    )
    driver = look.driver.error if isinstance(look.driver, Missing) else look.driver
    sliced = [gpu.index for gpu in look.gpus if gpu.mig == 1]
    mig = f", MIG is on for {', '.join(map(str, sliced))}" if sliced else ""
    note = f"; {look.visible.note}" if look.visible.note else ""
    return passed(f"driver {driver}, for CUDA {cuda} and older: {_gpus(len(look.gpus))}{mig}{note}")


def count(look: Look, here: Here, instances: Mapping[str, Any]) -> Finding:
    """Whether the host has the GPUs of its type, and the job those that it has chosen."""
    if look.trouble:
        return look.trouble
    kind = here.job.instance_type
    expected, present = gpus_of(instances, kind), len(look.gpus)
    named = ", ".join(str(gpu.uuid) for gpu in look.gpus if isinstance(gpu.uuid, str))
    if expected is not None and present < expected:
        return failed(f"{_gpus(present)}, {kind} has {expected}: {named}", REPLACE)
    if look.visible.missing:
        entry = look.visible.missing
        left = f"{len(look.visible.gpus)} of {_gpus(present)} visible"
        return warned(
            f"CUDA_VISIBLE_DEVICES names {entry!r}, which isn't here: {left}", WRONG_ENTRY
        )
    if expected is None:
        return skipped(f"{_gpus(present)}; how many {kind or 'this host'} has isn't known: {named}")
    return passed(f"{_gpus(present)}, {kind} has {expected}: {named}")


def driver(look: Look, image: Mapping[str, Any], instances: Mapping[str, Any]) -> Finding:
    """Whether the driver is new enough for the image's CUDA."""
    if look.trouble:
        return look.trouble
    wanted = image.get("minimum_driver")
    if not isinstance(wanted, str):
        return skipped("this image says nothing of CUDA")
    if not look.gpus:
        return skipped("NVML counts no GPU")
    if isinstance(look.driver, Missing):
        return unknown(f"the driver's version: NVML says {look.driver.error}")
    evidence = f"driver {look.driver}; the image's CUDA {image.get('cuda')} needs {wanted}"
    if _numbers(look.driver) >= _numbers(wanted):
        return passed(evidence)
    tags = _tags(instances, look.visible.gpus or look.gpus, look.driver)
    return failed(evidence, _choose(tags, "an instance with a newer driver"))


def arch(look: Look, image: Mapping[str, Any], instances: Mapping[str, Any]) -> Finding:
    """Whether the image's torch holds code for these GPUs."""
    built = _built(image.get("architectures"))
    if look.trouble or not built:
        return look.trouble or skipped("this image says nothing of CUDA")
    version = None if isinstance(look.driver, Missing) else look.driver

    def rule(gpu: Gpu) -> Finding:
        if isinstance(gpu.capability, Missing):
            return lacking(gpu.capability, "compute capability")
        has = f"compute capability {_dotted(gpu.capability)}"
        if runs(gpu.capability, *built):
            return passed(f"{has}: the image's torch has code for it")
        names = ", ".join(sorted({_dotted(one) for one in (*built[0], *built[1])}, key=_numbers))
        tags = _tags(instances, [gpu], version)
        return failed(
            f"{has}; the image's torch is built for {names}", _choose(tags, "another GPU")
        )

    return over(look, rule)


def runs(gpu: Capability, code: Sequence[Capability], text: Sequence[Capability] = ()) -> bool:
    """Whether a GPU runs what was built: code for its own generation and no newer, or text (PTX) for any older one."""
    same = any(one[0] == gpu[0] and one[1] <= gpu[1] for one in code)
    return same or any(one <= gpu for one in text)


def _built(architectures: Any) -> tuple[tuple[Capability, ...], tuple[Capability, ...]] | None:
    """Code and text in torch's own list: sm_90, sm_90a, compute_120."""
    if not isinstance(architectures, list):
        return None
    code: list[Capability] = []
    text: list[Capability] = []
    for name in architectures:
        found = re.fullmatch(r"(sm|compute)_(\d+)(\d)([a-z]?)", str(name))
        if found and not found[4]:  # sm_90a runs on 9.0 alone, which has sm_90 beside it
            (code if found[1] == "sm" else text).append((int(found[2]), int(found[3])))
    return (tuple(code), tuple(text)) if code or text else None


def _tags(instances: Mapping[str, Any], gpus: Sequence[Gpu], version: str | None) -> list[str]:
    """The tags that run on these GPUs with this driver, the best first."""
    wanted = [gpu.capability for gpu in gpus if not isinstance(gpu.capability, Missing)]
    return [
        str(tag["tag"])
        for tag in instances.get("tags", ())
        if (version is None or _numbers(version) >= _numbers(tag["minimum_driver"]))
        and all(runs(one, [_pair(each) for each in tag["architectures"]]) for one in wanted)
    ]


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _choose(tags: Sequence[str], otherwise: str) -> str:
    if tags:
        return f"muster/ddp:{tags[0]} works here (docs/gpus.md)."
    return f"No image of muster works here: choose {otherwise} (docs/gpus.md)."


def _pair(text: str) -> Capability:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def _dotted(capability: Capability) -> str:
    return f"{capability[0]}.{capability[1]}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
