"""Times and checks one size of one operation. Effects: memory, network, the clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

import torch

from muster_perf import verify
from muster_perf.calls import DTYPES, Buffers, Call, prepare
from muster_perf.flags import Flags
from muster_perf.operations import busbw_factor
from muster_perf.sizes import Counts, counts
from muster_perf.table import Half, Row
from muster_perf.values import Case, expected, sent, tolerance
from muster_perf.world import World

_AVERAGES = (
    lambda times: times[0],
    lambda times: sum(times) / len(times),
    min,
    max,
)
"""-a: rank 0's time, the mean, the least, the most."""


@dataclass
class Bench:
    """A sweep's operation with what it needs. `seconds` tells where the time went."""

    world: World
    flags: Flags
    buffers: Buffers
    case: Case
    lists: bool
    seconds: dict[str, float] = field(default_factory=dict)
    _checks: int = 0

    def warm_up(self, size: int) -> None:
        """Runs a size without looking at it."""
        begin = time.perf_counter()
        calls = self._calls(self._counts(size), self.flags.warmup_iters, in_place=False)
        for call in islice(cycle(calls), self.flags.warmup_iters):
            call()
        self.world.synchronize()
        self._spent("warm-up", begin)

    def measure(self, size: int) -> Row:
        """One row, out of place and then in place. The same on every rank."""
        sized, operation = self._counts(size), self.case.operation
        halves = [self._half(sized, in_place=in_place) for in_place in (False, True)]
        redop = self.case.redop if operation.reduces else operation.redop
        root = self.case.root if operation.rooted else -1
        width = DTYPES[self.case.type].itemsize
        return Row(sized.bytes(width), sized.count, self.case.type, redop, root, *halves)

    def _half(self, sized: Counts, *, in_place: bool) -> Half:
        flags, world = self.flags, self.world
        total = flags.iters * flags.agg_iters
        self._put(sized, in_place=in_place)
        calls = self._calls(sized, total, in_place=in_place)
        begin = time.perf_counter()
        calls[0]()
        world.synchronize()
        world.barrier()
        own = self._time(calls, total)
        times = [each for (each,) in world.exchange(own)]
        self._spent("measuring", begin)
        seconds = _AVERAGES[flags.average](times)
        width = DTYPES[self.case.type].itemsize
        algbw = sized.bytes(width) / 1e9 / seconds if seconds else 0.0
        busbw = algbw * busbw_factor(self.case.operation, world.size)
        wrong = self._check(sized, in_place=in_place) if flags.check else None
        return Half(seconds * 1e6, algbw, busbw, wrong)

    def _time(self, calls: Sequence[Call], total: int) -> float:
        """Seconds of a call on this rank: all are enqueued, and waited for once, unless -z asks for more."""
        world, blocking = self.world, self.flags.blocking
        on_gpu = world.device.type == "cuda"
        if on_gpu:
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            first.record()
        begin = time.perf_counter()
        for call in islice(cycle(calls), total):
            call()
            if blocking:
                world.synchronize()
            if blocking == 1:
                world.barrier()
        if on_gpu:
            last.record()
            last.synchronize()
            return float(first.elapsed_time(last)) / 1e3 / total
        return (time.perf_counter() - begin) / total

    def _check(self, sized: Counts, *, in_place: bool) -> int | None:
        """Elements that are wrong, over all ranks. None where the result in place is not defined."""
        if in_place and not self.case.operation.checked_in_place:
            return None
        for _ in range(self.flags.check):
            self._checks += 1
            case = self.case._replace(repeat=self._checks % 5)
            self._put(sized, in_place=in_place, case=case)
            begin = time.perf_counter()
            self._calls(sized, 1, in_place=in_place)[0]()
            self.world.synchronize()
            wrong = self._count_wrong(case, sized, in_place=in_place)
            found = int(sum(each for (each,) in self.world.exchange(wrong)))
            self._spent("checking", begin)
            if found:
                break
        return found

    def _count_wrong(self, case: Case, sized: Counts, *, in_place: bool) -> int:
        _, receive = self.buffers.views(case, self.world.rank, sized, in_place=in_place)
        wanted = expected(case, self.world.rank, sized)
        if case.operation.reduces and case.redop == "avg":
            wanted = verify.scaled(wanted, receive, self.world.size)
        return verify.count_wrong(receive, wanted, tolerance(case))

    def _put(self, sized: Counts, *, in_place: bool, case: Case | None = None) -> None:
        """Fills what is sent, and clears what is received into."""
        begin = time.perf_counter()
        case = case or self.case
        rank = self.world.rank
        send, receive = self.buffers.views(case, rank, sized, in_place=in_place)
        receive.zero_()
        verify.fill(send, sent(case, rank, sized))
        self.world.synchronize()
        self._spent("filling", begin)

    def _calls(self, sized: Counts, most: int, *, in_place: bool) -> list[Call]:
        """Calls on neighbouring places, as far as the buffers reach."""
        width = DTYPES[self.case.type].itemsize
        places = max(1, min(most, self.buffers.steps(sized, width)))
        rank = self.world.rank
        return [
            prepare(
                self.case,
                self.world,
                *self.buffers.views(self.case, rank, sized, in_place=in_place, step=step),
                lists=self.lists,
            )
            for step in range(places)
        ]

    def _counts(self, size: int) -> Counts:
        width = DTYPES[self.case.type].itemsize
        return counts(self.case.operation, size, width, self.world.size)

    def _spent(self, on: str, begin: float) -> None:
        self.seconds[on] = self.seconds.get(on, 0.0) + time.perf_counter() - begin
