"""From a rule for one GPU to a finding for the host. Pure."""

from __future__ import annotations

from collections.abc import Callable

from muster.check.finding import STATUSES, Finding, Status, skipped, unknown
from muster.check.gpu.asking import Look
from muster.check.gpu.facts import Gpu, Missing
from muster.check.gpu.remedies import REPLACE

Rule = Callable[[Gpu], Finding]


def over(look: Look, rule: Rule) -> Finding:
    """The worst that a rule finds among the GPUs that the job uses, with those that have it.

    GPUs that are lost are gpu.lost's business. Where the driver stopped answering, what it had
    told until then can fail, and can't pass.
    """
    gpus = look.visible.gpus
    seen = [(gpu, rule(gpu)) for gpu in gpus if not gpu.lost]
    if not seen:
        return look.trouble or _none(look)
    worst: Status = min((finding.status for _, finding in seen), key=STATUSES.index)
    if look.trouble and worst in ("PASS", "SKIP"):
        return look.trouble
    alike: dict[str, list[Gpu]] = {}
    for gpu, finding in seen:
        if finding.status == worst:
            alike.setdefault(finding.evidence, []).append(gpu)
    remedy = next(finding.remedy for _, finding in seen if finding.status == worst)
    several = len(seen) > 1
    told = [
        f"{_named(found, several and len(found) == len(seen))}: {text}"
        for text, found in alike.items()
    ]
    return Finding(worst, "; ".join(told), remedy)


def _none(look: Look) -> Finding:
    if any(gpu.lost for gpu in look.visible.gpus):
        return unknown("no GPU answers")
    return skipped("no GPU is visible" if look.gpus else "NVML counts no GPU")


def _named(gpus: list[Gpu], every: bool) -> str:
    if every:
        return f"all {len(gpus)} GPUs"
    return ", ".join(gpu.title for gpu in gpus)


def lacking(missing: Missing, what: str) -> Finding:
    """What to say where a fact is not there: a GPU without the feature, or a failed look at it."""
    if missing.absent:
        return skipped(f"no {what} on this GPU or driver")
    return unknown(f"{what}: NVML says {missing.error}")


def warned(evidence: str, remedy: str) -> Finding:
    """It will do, and may not do well."""
    return Finding("WARN", evidence, remedy)


def failed(evidence: str, remedy: str = REPLACE) -> Finding:
    """The job can't be trusted to this."""
    return Finding("FAIL", evidence, remedy)
