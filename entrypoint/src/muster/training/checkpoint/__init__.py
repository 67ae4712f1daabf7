"""Checkpoints of a job of many ranks and hosts, for training scripts (docs/checkpoints.md).

    from muster.training import checkpoint

    step = checkpoint.resume()                      # on every rank; None at the first start
    if step is not None:
        model.load_state_dict(checkpoint.load(step))
    for step in range(0 if step is None else step + 1, steps):
        ...
        checkpoint.save(model.state_dict(), step, scope="leader")

A save that is killed leaves the one before. resume() returns the newest step that all ranks have whole,
which they tell each other through the harness: no process group is needed. Standard library only; torch
is used where the script has imported it.

place.py     who this process is, and the folder
content.py   a state as a file
shards.py    the files of a step
sharded.py   those of torch.distributed.checkpoint
agreeing.py  the step that all have
store.py     all of this together
"""

from __future__ import annotations

import os
from typing import Any

from muster.training.checkpoint.place import CheckpointError, find_place
from muster.training.checkpoint.shards import Scope
from muster.training.checkpoint.store import open_store

__all__ = [
    "CheckpointError",
    "folder",
    "load",
    "load_sharded",
    "resume",
    "save",
    "save_sharded",
]

CheckpointError.__module__ = __name__  # As scripts know it: it becomes a job's failure reason.


def folder() -> str:
    """Where checkpoints are: MUSTER_CHECKPOINT_DIR, which muster sets; else SageMaker's, else ./checkpoints."""
    return find_place(os.environ).folder


def save(
    state: object,
    step: int,
    *,
    folder: str | None = None,
    keep: int = 3,
    scope: Scope = "rank",
) -> str | None:
    """Saves this rank's state of a step: all of it, or nothing that counts.

    Args:
        state: bytes are written as they are; anything else by torch.save where torch is imported,
            by pickle where it is not.
        step: counts up; saved once more it replaces what was there.
        folder: another one than folder() says.
        keep: steps to keep, the newest; two at least. Older ones are removed on this host.
        scope: whose state it is. rank: each rank has its own and all call. host: the same on all
            ranks of a host; its first rank writes. leader: the same on all ranks, as with DDP; rank 0
            writes, and others may call and write nothing.

    Returns:
        The path of the file; None on a rank that does not write.

    Raises:
        OSError: it can't be written, the disk is full for instance; the steps before are untouched.
        ValueError: a negative step, or nothing to keep.
    """
    return open_store(folder).save(state, step, keep, scope)


def resume(*, folder: str | None = None) -> int | None:
    """The newest step that all ranks have whole; None when there is nothing to go on from.

    All ranks must call it, each before its first save: it waits for the others.

    Raises:
        CheckpointError: there are checkpoints that so many ranks can't read, or a host lacks them;
            or the ranks can't be asked. All ranks raise the same.
    """
    return open_store(folder).resume()


def load(step: int, *, folder: str | None = None, weights_only: bool = True) -> Any:
    """This rank's state of a step, its tensors on the CPU: its own, else its host's, else the leader's.

    Args:
        step: what resume() has returned.
        folder: as for save().
        weights_only: as for torch.load; False reads any object, and trusts the folder.

    Raises:
        CheckpointError: there is none for this rank, or it can't be read.
    """
    return open_store(folder).load(step, weights_only=weights_only)


def save_sharded(
    state: dict[str, Any], step: int, *, folder: str | None = None, keep: int = 3
) -> str:
    """Saves a sharded state (FSDP, tensor parallel) by torch.distributed.checkpoint; all ranks call.

    Args:
        state: as torch.distributed.checkpoint.save takes it.
        step: as for save().
        folder: the same.
        keep: the same.

    Returns:
        The folder with torch's files.

    Raises:
        CheckpointError: torch.distributed has no process group.
    """
    return open_store(folder).save_sharded(state, step, keep)


def load_sharded(state: dict[str, Any], step: int, *, folder: str | None = None) -> None:
    """Loads into the tensors of `state`, in place; all ranks call, and may be fewer or more than saved it.

    Raises:
        CheckpointError: the step is not whole on all hosts, or there is no process group.
    """
    open_store(folder).load_sharded(state, step)
