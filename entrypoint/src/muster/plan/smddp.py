"""SageMaker's data parallel library: mpirun with the variables and the wrapper that it wants. Pure.

The library is a backend of torch.distributed that AWS builds for some instances and some torch
(https://docs.aws.amazon.com/sagemaker/latest/dg/distributed-data-parallel-support.html). muster brings none of
it; it starts ranks as the library expects, and says before any rank begins where it can't work.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from muster.errors import PlanError
from muster.model import Job
from muster.plan.start import Start
from muster.settings import Settings

ASKED = ("sagemaker_distributed_dataparallel_enabled", "sagemaker_pytorch_ddp_enabled")
"""What the SDK's `distribution=` sends for it."""
_PORT = "7592"
_MATRIX = (
    "It exists for PyTorch 2.0 to 2.5 with CUDA 11.8 to 12.4 and Python 3.10 or 3.11: "
    "https://docs.aws.amazon.com/sagemaker/latest/dg/distributed-data-parallel-support.html. "
)
_FALLBACK = (
    "MUSTER_SMDDP_FALLBACK=nccl starts the ranks without it, and tells them MUSTER_BACKEND=nccl."
)


def asked(job: Job) -> bool:
    """Whether the job wants the library."""
    return any(job.reserved.get(key, "").lower() == "true" for key in ASKED)


def refusal(job: Job, start: Start) -> str:
    """Why the library can't work here; empty where it can, as far as can be known.

    Local mode's instances are not judged: whoever tries it there knows what they have.
    """
    facts = start.facts
    if not facts.smddp_found:
        return "the image has no smdistributed.dataparallel for the script's Python"
    kind = job.instance_type
    if kind.startswith("ml.") and kind not in facts.smddp_types:
        return f"it does not support {kind}, only {', '.join(facts.smddp_types)}"
    return ""


@dataclass(frozen=True)
class Extras:
    """What a job that asks for the library gets beside mpirun."""

    wrapper: tuple[str, ...] = ()
    """In front of the script's command; empty where the library brings none."""
    env: dict[str, str] = field(default_factory=dict)
    """Variables of every host."""
    notes: tuple[str, ...] = ()


def extras(job: Job, settings: Settings, start: Start) -> Extras:
    """What the ranks get for the library; nothing where the job does not ask for it.

    Raises:
        PlanError: the job wants it, it can't work here, and no fallback is allowed.
    """
    if not asked(job):
        return Extras()
    why = refusal(job, start)
    if why and settings.smddp_fallback is None:
        raise PlanError(
            f"the job asks for SageMaker's data parallel library: {why}", _MATRIX + _FALLBACK
        )
    if why:
        note = f"smddp: {why}; MUSTER_BACKEND=nccl instead (MUSTER_SMDDP_FALLBACK)"
        return Extras(env={"MUSTER_BACKEND": "nccl"}, notes=(note,))
    wrapper = (start.facts.smddprun,) if start.facts.smddprun else ()
    alone = len(start.topology.hosts) == 1
    notes = ("WARNING: smddp on one host: it is made for two and more, NCCL is as good",)
    return Extras(wrapper, _environment(job, start, alone=alone), notes if alone else ())


def _environment(job: Job, start: Start, *, alone: bool) -> dict[str, str]:
    """The library's variables; what the user has set stays."""
    wanted = {
        "SMDATAPARALLEL_USE_SINGLENODE" if alone else "SMDATAPARALLEL_USE_HOMOGENEOUS": "1",
        "SMDATAPARALLEL_SERVER_ADDR": start.master_addr,
        "SMDATAPARALLEL_SERVER_PORT": _PORT,
        "SAGEMAKER_INSTANCE_TYPE": job.instance_type,
    }
    return {name: value for name, value in wanted.items() if name not in start.inherited}
