"""Fills buffers and counts what is wrong in them. Effects: memory.

Block by block: the buffers may take most of the memory that there is.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from muster_perf.values import Piece

_BLOCK = 2**20
"""Elements that are made, copied and compared at once, or a few more."""


def fill(buffer: torch.Tensor, pieces: list[Piece]) -> None:
    """Writes the pieces, one behind the other."""
    for part, block in _blocks(buffer, pieces):
        part.copy_(block)


def count_wrong(buffer: torch.Tensor, pieces: list[Piece], tolerance: float) -> int:
    """How many elements are not what the pieces say, or farther off than `tolerance`."""
    wrong = torch.zeros((), dtype=torch.int64, device=buffer.device)
    for part, block in _blocks(buffer, pieces):
        if tolerance:
            # Written so that no number at all (NaN) counts, too.
            wrong += (~((part.double() - block.double()).abs() <= tolerance)).sum()
        else:
            wrong += (part != block).sum()
    return int(wrong)


def scaled(pieces: list[Piece], buffer: torch.Tensor, by: int) -> list[Piece]:
    """The pieces with every value divided, as an average has it: whole numbers stay whole."""
    whole = not buffer.dtype.is_floating_point
    return [
        Piece(tuple(v // by if whole else v / by for v in values), offset, length)
        for values, offset, length in pieces
    ]


def _blocks(
    buffer: torch.Tensor, pieces: list[Piece]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Parts of the buffer, each with the elements that belong there."""
    begin = 0
    for values, offset, length in pieces:
        period = len(values)
        turned = values[offset % period :] + values[: offset % period]
        once = torch.tensor(turned, dtype=buffer.dtype, device=buffer.device)
        block = once.repeat(max(1, min(_BLOCK, length) // period + 1))
        for start in range(0, length, len(block)):
            stop = min(start + len(block), length)
            yield buffer[begin + start : begin + stop], block[: stop - start]
        begin += length
