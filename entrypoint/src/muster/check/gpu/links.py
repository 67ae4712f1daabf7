"""How GPUs reach each other and the host: NVLink, NVSwitch, PCIe. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.check.finding import Finding, Here, passed, skipped
from muster.check.gpu import remedies
from muster.check.gpu.asking import Look
from muster.check.gpu.facts import Gpu, Missing
from muster.check.gpu.judging import failed, lacking, over, warned
from muster.check.gpu.limits import CRC_A_SECOND, LINK_ERRORS
from muster.plan.instances import family_of

JOINED = 3
_STATES = {1: "has not begun to join", 2: "is still joining"}
_TRUE = 1
_HEALTH = {
    0: "less bandwidth",
    2: "a route being mended",
    4: "a bad route",
    6: "timeouts being mended",
}
"""Where two bits of the health mask begin, and what 1 in them means (NVML_GPU_FABRIC_HEALTH_MASK)."""
_CONFIGURATION, _CONFIGURATION_BITS, _CONFIGURATION_WELL = 8, 0xF, (0, 1)


def nvlink(look: Look, here: Here, instances: Mapping[str, Any]) -> Finding:
    """Whether as many links are up as the type has, or as the other GPUs have."""
    if len(look.gpus) < 2:  # noqa: PLR2004
        return look.trouble or skipped("there is no second GPU to be linked to")
    known = family_of(instances, here.job.instance_type).get("nvlinks")
    most = max((_up(gpu) for gpu in look.gpus), default=0)
    wanted = known if isinstance(known, int) else most

    def rule(gpu: Gpu) -> Finding:
        if isinstance(gpu.links, Missing):
            if wanted and gpu.links.absent:
                return failed(f"no NVLink, {_whose(known)} {wanted}")
            return lacking(gpu.links, "NVLink")
        if not wanted:
            return skipped("no NVLink is up on any GPU")
        evidence = f"{_up(gpu)} NVLinks are up, {_whose(known)} {wanted}"
        return passed(evidence) if _up(gpu) >= wanted else failed(evidence)

    return over(look, rule)


def _whose(known: Any) -> str:
    return "the instance has" if known else "other GPUs here have"


def _up(gpu: Gpu) -> int:
    return 0 if isinstance(gpu.links, Missing) else sum(gpu.links)


def nvlink_errors(gpu: Gpu) -> Finding:
    """What its links have had to repeat since the driver was loaded."""
    errors = gpu.link_errors
    if isinstance(errors, Missing):
        return lacking(errors, "NVLink error counter")
    replays, recoveries, checksums = errors
    evidence = f"NVLink: {replays} replays, {recoveries} recoveries, {checksums} wrong checksums"
    if replays + recoveries < LINK_ERRORS:
        return passed(evidence)
    return warned(evidence, remedies.WEAK_LINK)


def nvlink_growth(before: Gpu, after: Gpu, seconds: float) -> Finding:
    """What a GPU's links have had to repeat between two looks, while they were in use."""
    for gpu in (before, after):
        if isinstance(gpu.link_errors, Missing):
            return lacking(gpu.link_errors, "NVLink error counter")
    assert not isinstance(before.link_errors, Missing)
    assert not isinstance(after.link_errors, Missing)
    replays, recoveries, checksums = (
        # A GPU that was reset meanwhile has begun at 0.
        now - then if now >= then else now
        for then, now in zip(before.link_errors, after.link_errors, strict=True)
    )
    evidence = (
        f"NVLink in {seconds:.0f} s: {replays} replays, {recoveries} recoveries, "
        f"{checksums} wrong checksums"
    )
    if seconds > 0 and checksums / seconds >= CRC_A_SECOND:
        return failed(evidence)
    if replays or recoveries:
        return warned(evidence, remedies.WEAK_LINK)
    return passed(evidence)


def links_grown(before: Look, after: Look, seconds: float) -> Finding:
    """The same for all GPUs that the job uses."""
    first = {gpu.index: gpu for gpu in before.gpus}
    found = over(
        after, lambda gpu: nvlink_growth(first.get(gpu.index, Gpu(gpu.index)), gpu, seconds)
    )
    # What the driver did not tell at the first look can't have been well.
    return before.trouble if before.trouble and found.status in ("PASS", "SKIP") else found


def fabric(gpu: Gpu) -> Finding:
    """Whether it has joined the NVSwitch fabric: without that CUDA does not begin."""
    found = gpu.fabric
    if isinstance(found, Missing):
        return lacking(found, "NVSwitch fabric")
    state, status, health = found
    if state == 0:
        return skipped("no NVSwitch fabric on this GPU or driver")
    if state != JOINED:
        return failed(
            f"it {_STATES.get(state, f'has state {state}')} in the NVSwitch fabric",
            remedies.MANAGER,
        )
    if status:
        return failed(
            f"it could not join the NVSwitch fabric: NVML error {status}", remedies.MANAGER
        )
    wrong = [text for shift, text in _HEALTH.items() if health >> shift & 3 == _TRUE]
    if health >> _CONFIGURATION & _CONFIGURATION_BITS not in _CONFIGURATION_WELL:
        wrong.append("a wrong configuration")
    if wrong:
        return warned(f"the NVSwitch fabric has {', '.join(wrong)}", remedies.MANAGER)
    return passed("it has joined the NVSwitch fabric")


def pcie(gpu: Gpu) -> Finding:
    """Its way to the host; the generation drops while nothing is sent, the width does not."""
    found = gpu.pcie
    if isinstance(found, Missing):
        return lacking(found, "PCIe link")
    generation, most, width, widest = found
    evidence = f"PCIe x{width} of x{widest}, generation {generation} of {most} at rest"
    if width >= widest:
        return passed(evidence)
    return warned(evidence, remedies.NARROW)
