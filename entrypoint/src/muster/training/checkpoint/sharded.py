"""A sharded state (FSDP and its like) by torch.distributed.checkpoint, which writes and reads its files.

    FOLDER/step-00000042/sharded.6a1b2c3d0001/__3_0.distcp …   torch's, a few a rank
                                              .metadata        torch's, by rank 0
                                              rank-3-of-4.json rank 3 has written all of its own
                         sharded.6a1b2c3d0001.0001/…           the run has saved the step once more

torch writes its files in place. So a step counts as whole where the marks of all ranks are there, and
each file that a mark names has the size that it names; and no folder is written to twice. `run` is a
folder's name without `sharded.`. Effects: files; collectives of torch.distributed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from typing import Any, TypeVar

from muster.training.checkpoint.place import CheckpointError, Place
from muster.training.checkpoint.shards import SHARDED, step_folder, write_at_once

_FOLDER = re.compile(re.escape(SHARDED) + r"(([0-9a-f]{12})(?:\.(\d{4,8}))?)")
_MARK = re.compile(r"rank-(\d+)-of-(\d+)\.json")
_METADATA = ".metadata"
_Value = TypeVar("_Value")


def save(state: dict[str, Any], step: int, place: Place, run: str) -> str:
    """Saves, all ranks together. The folder.

    Raises:
        CheckpointError: there is no process group.
    """
    _need_group(place)
    path = _fresh(step_folder(place.folder, step), place, run)
    os.makedirs(path, exist_ok=True)
    _write(state, path)
    mark = json.dumps({"files": _own_files(path, place.rank)}).encode()
    write_at_once(os.path.join(path, _mark_of(place)), lambda file: file.write(mark))
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
    for match, path in _folders(step_folder(folder, step)):
        if _is_whole(path):
            yield match[1], path


def whole_everywhere(folder: str, step: int, place: Place) -> dict[str, str]:
    """The same for all ranks together: those that are whole for each of them.

    Raises:
        CheckpointError: there is no process group.
    """
    _need_group(place)
    _every(place, [])  # All are here, and so have left the save before: their marks can be seen.
    mine = dict(whole_runs(folder, step))
    common = set.intersection(*map(set, _every(place, list(mine))))
    return {run: mine[run] for run in common}


def own_runs(folder: str, step: int, place: Place) -> set[str]:
    """The runs of this step of which this rank's own part is whole.

    Hosts that share nothing have no other's part before a restart.
    """
    inside = step_folder(folder, step)
    return {match[1] for match, path in _folders(inside) if _is_marked(path, _mark_of(place))}


def remove_replaced(folder: str, step: int, place: Place, run: str) -> None:
    """Removes what this run had saved of a step before it saved the step once more.

    Only for a step that this rank has left behind: then all ranks have saved it once more.
    """
    inside = step_folder(folder, step)
    own = [path for match, path in _folders(inside) if match[2] == run]
    marked = [path for path in own if _is_marked(path, _mark_of(place))]
    for path in own[: own.index(marked[-1])] if marked else []:
        shutil.rmtree(path, ignore_errors=True)


def _fresh(inside: str, place: Place, run: str) -> str:
    """A folder that no rank has yet: what is whole stays so while torch writes. All ranks call."""
    own = [(int(match[3] or 0), path) for match, path in _folders(inside) if match[2] == run]
    number = max(_every(place, max((each for each, _ in own), default=-1) + 1))
    for _, path in own:
        # A save that failed, of which all ranks have come back: it would only fill the disk.
        if not _is_marked(path, _mark_of(place)) and not _is_whole(path):
            shutil.rmtree(path, ignore_errors=True)
    return os.path.join(inside, SHARDED + run + (f".{number:04d}" if number else ""))


def _folders(inside: str) -> list[tuple[re.Match[str], str]]:
    """A step's folders of sharded states, each run's in the order in which they were saved."""
    try:
        names = sorted(os.listdir(inside))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [(_FOLDER.fullmatch(name), os.path.join(inside, name)) for name in names]
    return [(match, path) for match, path in found if match]


def _write(state: dict[str, Any], path: str) -> None:
    from torch.distributed.checkpoint import state_dict_saver  # noqa: PLC0415  (heavy)

    state_dict_saver.save(state, checkpoint_id=path)


def _every(place: Place, value: _Value) -> list[_Value]:
    """What each rank says. All call."""
    if place.world == 1:
        return [value]
    import torch.distributed as dist  # noqa: PLC0415  (heavy)

    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, value)
    return told


def _mark_of(place: Place) -> str:
    return f"rank-{place.rank}-of-{place.world}.json"


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
    except (OSError, ValueError):
        return False
    there = os.path.exists(os.path.join(path, _METADATA))
    return there and all(_is_marked(path, name) for name in marks)


def _is_marked(path: str, mark: str) -> bool:
    """Whether a rank has left its mark, and all that the mark names is here."""
    try:
        with open(os.path.join(path, mark), "rb") as file:
            named = json.load(file)["files"]
        return all(os.path.getsize(os.path.join(path, each)) == named[each] for each in named)
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
