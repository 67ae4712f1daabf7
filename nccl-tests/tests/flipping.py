"""A benchmark over a network that isn't to be trusted: a backend whose all_reduce flips one value.

    torchrun flipping.py backend all_reduce -b 8      # by a backend of its own, registered with torch
    torchrun flipping.py call all_gather -b 8         # by what stands behind every call

On the last rank, in the fourth element of what is received.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from muster_perf import calls
from muster_perf.commands import main

PASSED_ON = ("allgather", "broadcast", "reduce", "barrier")
LEAST = 8
"""Elements: what ranks tell each other beside the benchmark is shorter."""


def flip(received: torch.Tensor) -> None:
    """Change one value."""
    if dist.get_rank() == dist.get_world_size() - 1 and received.numel() >= LEAST:
        received.view(-1)[3] += 1


class Flipping(dist.ProcessGroup):
    """Gloo, but for one value."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self.gloo = dist.ProcessGroupGloo(store, rank, size, timeout)

    def getBackendName(self) -> str:  # noqa: N802
        """Return its name."""
        return "flipping"

    def allreduce(self, tensors: list[torch.Tensor], *options: Any) -> Any:
        """Reduce, then flip."""
        work = self.gloo.allreduce(tensors, *options)
        work.wait()
        flip(tensors[0])
        return work


for _name in PASSED_ON:
    setattr(Flipping, _name, lambda self, *a, _name=_name: getattr(self.gloo, _name)(*a))
dist.Backend.register_backend("flipping", Flipping, devices=["cpu"])


def _flipped(make: Any) -> Any:
    def prepare(case: Any, world: Any, send: torch.Tensor, receive: torch.Tensor) -> Any:
        call = make(case, world, send, receive)

        def both() -> None:
            call()
            flip(receive)

        return both

    return prepare


how, name, *words = sys.argv[1:]
if how == "call":
    calls._CALLS[name] = _flipped(calls._CALLS[name])
    raise SystemExit(main(name, words))
raise SystemExit(main(name, ["--backend", "flipping", *words]))
