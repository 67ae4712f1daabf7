"""Stands in for SageMaker's data parallel library, which runs on ml.p4d only: its backend's limits, over gloo.

Importing it registers a backend `smddp` that has what AWS documents for 1.4.0 and newer (guides.md B3):
all_reduce, broadcast, reduce, all_gather and barrier. Everything else raises, and so do a second group and
a second backend (B2). Used by tests alone; no image has it.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import torch.distributed as dist

HAS = ("allreduce", "broadcast", "reduce", "allgather", "barrier")
LACKS = (
    *("allgather_coalesced", "allgather_into_tensor_coalesced", "allreduce_coalesced"),
    *("alltoall", "alltoall_base", "gather", "scatter", "send", "recv", "recv_anysource"),
    *("reduce_scatter", "reduce_scatter_tensor_coalesced", "_allgather_base"),
    "_reduce_scatter_base",
)
# What the library reads, and mpirun's wrapper makes sure of.
NEEDS = ("SMDATAPARALLEL_SERVER_ADDR", "SMDATAPARALLEL_SERVER_PORT", "SAGEMAKER_INSTANCE_TYPE")
NEEDS += ("SMDDPRUN",)


class StandIn(dist.ProcessGroup):
    """A process group with five collectives."""

    made = False

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        missing = [name for name in NEEDS if name not in os.environ]
        if missing:
            raise RuntimeError(f"smddp: not started by its launcher, {missing[0]} is unset")
        if StandIn.made:
            raise RuntimeError("smddp: new_group is not supported")
        StandIn.made = True
        super().__init__(rank, size)
        self.gloo = dist.ProcessGroupGloo(store, rank, size, timeout)

    def getBackendName(self) -> str:  # noqa: N802  (torch's own name)
        """Return what `dist.get_backend` is to say."""
        return "smddp"


def _passed_on(name: str) -> Any:
    def method(self: StandIn, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.gloo, name)(*args, **kwargs)

    return method


def _refused(name: str) -> Any:
    def method(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"smddp: {name} is not supported")

    return method


for _name in HAS:
    setattr(StandIn, _name, _passed_on(_name))
for _name in LACKS:
    setattr(StandIn, _name, _refused(_name))

dist.Backend.register_backend("smddp", StandIn, devices=["cpu", "cuda"])

_init_process_group, _new_group = dist.init_process_group, dist.new_group


def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
    """As torch's, for one backend alone."""
    if backend != "smddp":
        raise RuntimeError(f"smddp: no second backend, got {backend!r}")
    _init_process_group(backend, *args, **kwargs)


def new_group(*_: Any, **__: Any) -> None:
    """Refuse."""
    raise RuntimeError("smddp: new_group is not supported")


dist.init_process_group, dist.new_group = init_process_group, new_group
