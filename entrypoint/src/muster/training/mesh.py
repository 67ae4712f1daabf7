"""The device mesh that a job's `mp_parameters` ask for: for DTensor, FSDP2 and tensor parallelism.

    import torch.distributed as dist
    from muster.training.mesh import device_mesh

    dist.init_process_group()
    mesh = device_mesh()
    parallelize_module(model, mesh["tp"], plan)
    fully_shard(model, mesh=mesh["dp_shard"])

`mp_parameters` is how SageMaker's SDKs send the degrees of parallelism (contract.md 2). AWS's library for
them, torch.sagemaker, is in no image of ours; torch itself can do the same, once it has the mesh.
muster gives it to the ranks as MUSTER_MESH. Where AWS's own scripts start them, as under
ModelTrainer's `distributed=Torchrun(smp=SMP(…))`, it is made here of SM_HP_MP_PARAMETERS and WORLD_SIZE.

Effects: `device_mesh` makes process groups, and imports torch. All else is pure.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TENSOR = "tensor_parallel_degree"
SHARD = "hybrid_shard_degree"
CONTEXT = "context_parallel_degree"
EXPERT = "expert_parallel_degree"
PIPELINE = ("partitions", "pipeline_parallel_degree")
"""Of the library's first version, for which torch has no mesh alone: the script must cut the model."""


@dataclass(frozen=True)
class Mesh:
    """How the ranks are laid out, the last dimension with neighbouring ranks.

    `dp_shard` and `tp` are always there, `dp_replicate` and `cp` where they are more than 1.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    """Ranks in each dimension; their product is the world size."""
    ep: int = 1
    """Ranks over which experts are spread. They are among those of `dp_shard` and `cp`, so it is no dimension."""

    @property
    def text(self) -> str:
        """As MUSTER_MESH has it."""
        experts = {"ep": self.ep} if self.ep > 1 else {}
        return json.dumps({"shape": self.shape, "names": self.names, **experts})


def device_mesh(device_type: str | None = None) -> Any:
    """The job's mesh, a torch.distributed.device_mesh.DeviceMesh. The process group is open already.

    Args:
        device_type: cuda or cpu; default: cuda where there is one.

    Raises:
        ValueError: the degrees don't fit the ranks.

    Effects: every rank must call it; it makes process groups.
    """
    import torch  # noqa: PLC0415  (the harness imports this module too, and has no torch)
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415

    mesh = read_mesh(os.environ)
    kind = device_type or ("cuda" if torch.cuda.is_available() else "cpu")
    return init_device_mesh(kind, mesh.shape, mesh_dim_names=mesh.names)


def read_mesh(env: Mapping[str, str]) -> Mesh:
    """The mesh of a rank with this environment; without mp_parameters all ranks are `dp_shard`.

    Raises:
        ValueError: the degrees don't fit the ranks, or can't be read.
    """
    if given := env.get("MUSTER_MESH"):
        told = json.loads(given)
        return Mesh(tuple(told["names"]), tuple(told["shape"]), told.get("ep", 1))
    sent = json.loads(env.get("SM_HP_MP_PARAMETERS") or "{}")
    return make_mesh(sent if isinstance(sent, dict) else {}, int(env.get("WORLD_SIZE", "1")))


def make_mesh(parameters: Mapping[str, Any], world: int) -> Mesh:
    """The mesh of `world` ranks that `mp_parameters` ask for.

    Raises:
        ValueError: a degree is no number, doesn't divide what it has to, or needs AWS's library.
    """
    for key in PIPELINE:
        if _degree(parameters, key, 1) > 1:
            raise ValueError(f"{key} is a pipeline of SageMaker's own library, which is not here")
    tensor, context = _degree(parameters, TENSOR, 1), _degree(parameters, CONTEXT, 1)
    _divide(world, "ranks of the job", f"{TENSOR} {tensor}", tensor)
    # 0 is the library's word for as many as there are.
    shard = _degree(parameters, SHARD, 0) or world // tensor
    product = f"{SHARD} {shard} times {TENSOR} {tensor}"
    _divide(world, "ranks of the job", product, shard * tensor)
    _divide(shard, f"ranks of {SHARD}", f"{CONTEXT} {context}", context)
    experts = _degree(parameters, EXPERT, 1)
    _divide(shard, f"ranks of {SHARD}", f"{EXPERT} {experts}", experts)
    sizes = {
        "dp_replicate": world // tensor // shard,
        "dp_shard": shard // context,
        "cp": context,
        "tp": tensor,
    }
    kept = {name: size for name, size in sizes.items() if size > 1 or name in ("dp_shard", "tp")}
    return Mesh(tuple(kept), tuple(kept.values()), experts)


def _degree(parameters: Mapping[str, Any], key: str, unset: int) -> int:
    value = parameters.get(key)
    if value is None:
        return unset
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:  # noqa: PLR2004
        value = int(value)
    least = min(unset, 1)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{key} is no whole number from {least}")
    return value


def _divide(number: int, what: str, divisor: str, degree: int) -> None:
    if number % degree:
        raise ValueError(f"{divisor} does not divide the {number} {what}")
