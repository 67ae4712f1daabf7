"""From bytes asked for to elements moved. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from muster_perf.flags import Flags
from muster_perf.operations import Operation

_ALIGNED = 16


@dataclass(frozen=True)
class Counts:
    """Elements of one call on one rank."""

    count: int
    """The column `count`: what the call is given, a rank's part where the size is divided."""
    send: int
    receive: int

    def bytes(self, width: int) -> int:
        """The column `size`, for elements of `width` bytes. Smaller than asked, and 0, where nothing is left."""
        return max(self.send, self.receive) * width


def counts(operation: Operation, size: int, width: int, ranks: int) -> Counts:
    """What `size` bytes come to on each rank.

    Parts are cut down to a multiple of 16 bytes, as NVIDIA's, so that every rank's begins aligned.

    Args:
        operation: the collective.
        size: bytes, as asked for.
        width: bytes of an element.
        ranks: how many there are.
    """
    if not operation.divided:
        whole = size // width
        return Counts(whole, whole, whole)
    part = size // width // ranks & ~(_ALIGNED // width - 1)
    return Counts(
        part,
        part * ranks if operation.sends_parts else part,
        part * ranks if operation.receives_parts else part,
    )


def sweep(flags: Flags) -> Iterator[int]:
    """The sizes to be measured, in bytes."""
    size = flags.minbytes
    while size <= flags.maxbytes:
        yield size
        size = size * flags.stepfactor if flags.stepfactor > 1 else size + flags.stepbytes


def warm_up(flags: Flags) -> Iterator[int]:
    """The sizes of the warm-up: doubled from the smallest on, whatever the steps of the sweep are."""
    size = max(flags.minbytes, 1)
    while size <= flags.maxbytes:
        yield size
        size *= 2
