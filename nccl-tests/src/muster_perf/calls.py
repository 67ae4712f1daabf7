"""Buffers, and the calls of torch.distributed on them. Effects: memory, network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from muster_perf.errors import REFUSED, PerfError
from muster_perf.sizes import Counts
from muster_perf.values import Case
from muster_perf.world import World, first_line

Call = Callable[[], object]
DTYPES = {
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int32": torch.int32,
    "int64": torch.int64,
    "half": torch.float16,
    "float": torch.float32,
    "double": torch.float64,
    "bfloat16": torch.bfloat16,
}
_REDOPS = {
    "sum": dist.ReduceOp.SUM,
    "prod": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
    "avg": dist.ReduceOp.AVG,
}
# New names since torch 2.13, which warns of the old ones.
_all_gather_single: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter_single: Any = (
    getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
)


class Buffers:
    """A send and a receive buffer of the largest size, in which every smaller one lies."""

    def __init__(self, size: int, device: torch.device) -> None:
        self._size = size
        self._send = torch.zeros(size, dtype=torch.uint8, device=device)
        self._receive = torch.zeros(size, dtype=torch.uint8, device=device)

    def steps(self, counts: Counts, width: int) -> int:
        """How many calls in a row find a place of their own, so that no cache makes them fast."""
        return max(1, self._size // (counts.bytes(width) or self._size or 1))

    def views(
        self, case: Case, rank: int, counts: Counts, *, in_place: bool, step: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What one call sends from and receives into. In place they lie in one buffer, as NCCL wants them."""
        dtype = DTYPES[case.type]
        begin = step * counts.bytes(dtype.itemsize)
        end = begin + counts.bytes(dtype.itemsize)
        receive = self._receive[begin:end].view(dtype)
        send = receive if in_place else self._send[begin:end].view(dtype)
        own = slice(rank * counts.count, (rank + 1) * counts.count)
        operation = case.operation
        if in_place and operation.receives_parts and not operation.sends_parts:
            send = send[own]
        if in_place and operation.sends_parts and not operation.receives_parts:
            receive = receive[own]
        return send[: counts.send], receive[: counts.receive]


def prepare(
    case: Case, world: World, send: torch.Tensor, receive: torch.Tensor, *, lists: bool = False
) -> Call:
    """The call of an operation on two views. What can be made before is not made in it.

    Args:
        case: the operation, its root, and what it reduces by.
        world: the ranks.
        send: what is sent from. Lies in `receive`, or is it, for a call in place.
        receive: what is received into.
        lists: whether all_gather is to be called with a list of tensors.
    """
    if lists:
        return partial(dist.all_gather, list(receive.chunk(world.size)), send)
    call = _CALLS[case.operation.name](case, world, send, receive)
    if case.operation.copies and send.data_ptr() != receive.data_ptr():
        return partial(_copy_first, receive, send, call)
    return call


def pair(peer: int, send: torch.Tensor, receive: torch.Tensor) -> Call:
    """Sends to a rank and receives from it, at once."""
    return partial(_both_ways, peer, peer, send, receive)


def choose_lists(case: Case, world: World) -> bool:
    """Tries the operation on a few elements. Whether its all_gather has to be called with a list.

    Raises:
        PerfError: the backend doesn't have it.
    """
    operation, many = case.operation, 16 * world.size
    few = Counts(
        16, many if operation.sends_parts else 16, many if operation.receives_parts else 16
    )
    send = torch.ones(few.send, dtype=DTYPES[case.type], device=world.device)
    receive = torch.ones(few.receive, dtype=DTYPES[case.type], device=world.device)
    for lists in (False, True) if operation.name == "all_gather" else (False,):
        try:
            prepare(case, world, send, receive, lists=lists)()
            world.synchronize()
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
            reason = first_line(error)
        else:
            return lists
    by = f" by {case.redop}" if operation.reduces else ""
    what = f"backend {world.backend} has no {operation.name}{by} of {case.type}: {reason}"
    raise PerfError(what, "", REFUSED)


def _copy_first(receive: torch.Tensor, send: torch.Tensor, call: Call) -> None:
    receive.copy_(send)
    call()


def _gather(case: Case, world: World, send: torch.Tensor, receive: torch.Tensor) -> Call:
    parts = _parts(receive, world.size) if world.rank == case.root else None
    return partial(dist.gather, send, parts, case.root)


def _scatter(case: Case, world: World, send: torch.Tensor, receive: torch.Tensor) -> Call:
    parts = _parts(send, world.size) if world.rank == case.root else None
    return partial(dist.scatter, receive, parts, case.root)


def _parts(of: torch.Tensor, ranks: int) -> list[torch.Tensor]:
    part = of.numel() // ranks
    return [of[i * part : (i + 1) * part] for i in range(ranks)]


def _ring(_case: Case, world: World, send: torch.Tensor, receive: torch.Tensor) -> Call:
    """To the next rank, from the one before. One rank copies: torch lets none send to itself."""
    if world.size == 1:
        return partial(receive.copy_, send)
    after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    return partial(_both_ways, after, before, send, receive)


def _both_ways(to: int, source: int, send: torch.Tensor, receive: torch.Tensor) -> None:
    if send.numel() == 0:
        return
    both = [dist.P2POp(dist.isend, send, to), dist.P2POp(dist.irecv, receive, source)]
    for work in dist.batch_isend_irecv(both):
        work.wait()


_CALLS: dict[str, Callable[[Case, World, torch.Tensor, torch.Tensor], Call]] = {
    "all_reduce": lambda case, _w, _s, to: partial(dist.all_reduce, to, op=_REDOPS[case.redop]),
    "all_gather": lambda _c, _w, send, to: partial(_all_gather_single, to, send),
    "reduce_scatter": lambda case, _w, send, to: partial(
        _reduce_scatter_single, to, send, op=_REDOPS[case.redop]
    ),
    "alltoall": lambda _c, _w, send, to: partial(dist.all_to_all_single, to, send),
    "broadcast": lambda case, _w, _s, to: partial(dist.broadcast, to, case.root),
    "reduce": lambda case, _w, _s, to: partial(dist.reduce, to, case.root, op=_REDOPS[case.redop]),
    "gather": _gather,
    "scatter": _scatter,
    "sendrecv": _ring,
}
"""How torch has each operation. The first, fifth and sixth know one tensor only, sent from and received into."""
