"""A sharded state (FSDP and its like) by torch.distributed.checkpoint, which writes and reads its files.

    FOLDER/step-00000042/sharded.6a1b2c3d0001/__3_0.distcp …   torch's, a few a rank
                                              .metadata        torch's, by rank 0
                                              rank-3-of-4.json rank 3 has written all of its own

torch writes its files in place. So a step counts as whole where the marks of all ranks are there, and
each file that a mark names has the size that it names. Effects: files; collectives of torch.distributed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from muster.training.checkpoint.place import CheckpointError, Place
from muster.training.checkpoint.shards import step_folder, write_at_once

_FOLDER = re.compile(r"sharded\.([0-9a-f]{12})")
_MARK = re.compile(r"rank-(\d+)-of-(\d+)\.json")
_METADATA = ".metadata"


def save(state: dict[str, Any], step: int, place: Place, run: str) -> str:
    """Saves, all ranks together. The folder.

    Raises:
        CheckpointError: there is no process group.
    """
    _need_group(place)
    from torch.distributed.checkpoint import state_dict_saver  # noqa: PLC0415  (heavy)

    path = os.path.join(step_folder(place.folder, step), f"sharded.{run}")
    os.makedirs(path, exist_ok=True)
    state_dict_saver.save(state, checkpoint_id=path)
    mark = json.dumps({"files": _own_files(path, place.rank)}).encode()
    name = f"rank-{place.rank}-of-{place.world}.json"
    write_at_once(os.path.join(path, name), lambda file: file.write(mark))
    return path


def load(state: dict[str, Any], path: str, place: Place) -> None:
    """Loads into the tensors of `state`, all ranks together.

    Raises:
        CheckpointError: there is no process group.
    """
    _need_group(place)
    from torch.distributed.checkpoint import state_dict_loader  # noqa: PLC0415  (heavy)

    state_dict_loader.load(state, checkpoint_id=path)


def whole_runs(folder: str, step: int) -> Iterator[tuple[str, str]]:
    """The runs whose sharded state of this step is whole here, each with its path."""
    inside = step_folder(folder, step)
    try:
        names = sorted(os.listdir(inside))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        match = _FOLDER.fullmatch(name)
        path = os.path.join(inside, name)
        if match and _is_whole(path):
            yield match[1], path


def _own_files(path: str, rank: int) -> dict[str, int]:
    """The names and sizes of what torch has written for a rank."""
    heads = (f"__{rank}_", *([_METADATA] if rank == 0 else []))
    names = [name for name in os.listdir(path) if name.startswith(heads)]
    names = [name for name in names if name == _METADATA or name.endswith(".distcp")]
    return {name: os.path.getsize(os.path.join(path, name)) for name in names}


def _is_whole(path: str) -> bool:
    """Whether all ranks of the job that saved it have left their mark, and all that the marks name is here.

    How many ranks there are now does not matter: torch hands the parts out anew.
    """
    try:
        marks = {name: match for name in os.listdir(path) if (match := _MARK.fullmatch(name))}
        worlds = {int(match[2]) for match in marks.values()}
        if len(worlds) != 1 or len(marks) != worlds.pop():
            return False
        for name in marks:
            with open(os.path.join(path, name), "rb") as file:
                named = json.load(file)["files"]
            if any(os.path.getsize(os.path.join(path, each)) != named[each] for each in named):
                return False
        return os.path.exists(os.path.join(path, _METADATA))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _need_group(place: Place) -> None:
    if place.world == 1:
        return
    import torch.distributed as dist  # noqa: PLC0415  (heavy)

    if not (dist.is_available() and dist.is_initialized()):
        raise CheckpointError(
            "a sharded state needs torch.distributed: call init_process_group() before it is saved or loaded"
        )
