"""The device mesh of a job that was sent `mp_parameters`. Pure.

AWS's library of model parallelism is not in our images. The degrees that its users send are enough for
torch's own: they reach the ranks as MUSTER_MESH, and what they can't mean here is said.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

from muster.errors import PlanError
from muster.model import Job
from muster.plan.topology import Topology
from muster.training.mesh import PIPELINE, make_mesh

KEY = "mp_parameters"
_LIBRARY = "SageMaker's own library (torch.sagemaker) is in no image of muster's"


class MeshChoice(NamedTuple):
    """What the ranks get, and what is said of it."""

    env: dict[str, str]
    notes: tuple[str, ...]


def choose_mesh(job: Job, topology: Topology, *, shared: bool) -> MeshChoice:
    """MUSTER_MESH, where the job asks for parallelism and the ranks make one world.

    Args:
        job: the job.
        topology: its ranks.
        shared: whether the launcher makes one world of them.

    Raises:
        PlanError: a degree is no number, or the ranks can't be divided by it.
    """
    parameters = _sent(job)
    if not parameters or not shared:
        return MeshChoice({}, ())
    piped = [key for key in PIPELINE if parameters.get(key) not in (None, 1, "1")]
    if piped:
        note = f"{KEY}: no mesh, as {', '.join(piped)} asks for a pipeline: {_LIBRARY}"
        return MeshChoice({}, (note,))
    try:
        mesh = make_mesh(parameters, topology.world_size)
    except ValueError as error:
        remedy = (
            "Change the degrees in mp_parameters, the hosts, or the ranks a host (MUSTER_NPROC)."
        )
        raise PlanError(f"{KEY}: {error}", remedy) from None
    sizes = " ".join(f"{name}={size}" for name, size in zip(mesh.names, mesh.shape, strict=True))
    wide = mesh.shape[-1]
    across = [f"tp={wide} reaches over hosts, which is slow"] if topology.nproc % wide else []
    told = "; ".join([f"MUSTER_MESH {sizes}", *across, _LIBRARY])
    return MeshChoice({"MUSTER_MESH": mesh.text}, (f"{KEY}: {told}",))


def _sent(job: Job) -> dict[str, Any]:
    """The object that was sent, as JSON or as Python writes it: a generic Estimator sends `{'a': 1}`."""
    value = next((item.value for item in job.hyperparameters if item.key == KEY), None)
    if isinstance(value, str) and value.startswith("{"):
        import ast  # noqa: PLC0415  (for a rare case)

        with contextlib.suppress(ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            value = ast.literal_eval(value)
    return value if isinstance(value, dict) else {}
