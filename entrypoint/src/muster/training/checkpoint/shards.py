"""The files of checkpoints: their names, which are whole, writing one at once, removing old ones.

    FOLDER/step-00000042/algo-2.rank-3-of-4.6a1b2c3d0001.pt    a rank's own state
                         algo-2.host.6a1b2c3d0001.pt           a host's, written by its first rank
                         all.6a1b2c3d0001.pt                   everybody's, written by rank 0
                         .NAME.PID.tmp                         not whole yet
    FOLDER/algo-2.latest.json                                  the newest step that is whole on algo-2

A file that has its name is whole. The digits name the run that saved it: what two runs have saved
at one step is never mixed. All else in the folder is passed over, as the marks that SageMaker's
uploader puts beside files (*.sagemaker-uploading, *.sagemaker-uploaded). Effects: files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from typing import BinaryIO, Literal, NamedTuple

from muster.training.checkpoint.place import Place

Scope = Literal["rank", "host", "leader"]

SHARDED = "sharded."
"""How a folder begins that torch.distributed.checkpoint writes to, in a step's: see sharded.py."""
_STEP = re.compile(r"step-(\d{8,18})")
_SHARD = re.compile(
    r"(?:(?P<host>[\w.-]+)\.(?:rank-(?P<rank>\d+)-of-(?P<world>\d+)|host)|all)"
    r"\.(?P<run>[0-9a-f]{12})\.(?:bin|pt|pkl)"
)
_TRIES = 5
_UNSYNCED = {errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP}
"""What says that a folder can't be brought to the disk by itself, where its files can."""


class Shard(NamedTuple):
    """One whole file of a step."""

    path: str
    run: str
    scope: Scope
    host: str
    rank: int
    world: int
    """Ranks of the job that saved it; 0 where that means nothing."""


def stem(place: Place, scope: Scope, run: str) -> str:
    """The name of this rank's file, without what says how it is written."""
    if scope == "leader":
        return f"all.{run}"
    part = f"rank-{place.rank}-of-{place.world}" if scope == "rank" else "host"
    return f"{place.host}.{part}.{run}"


def step_folder(folder: str, step: int) -> str:
    """Where the files of a step are."""
    return os.path.join(folder, f"step-{step:08d}")


def steps(folder: str) -> list[int]:
    """The steps that have a folder, newest first, whole or not."""
    try:
        found = [_STEP.fullmatch(name) for name in os.listdir(folder)]
    except FileNotFoundError:
        return []
    return sorted((int(match[1]) for match in found if match), reverse=True)


def shards(folder: str, step: int) -> Iterator[Shard]:
    """The whole files of a step, those of other ranks too."""
    inside = step_folder(folder, step)
    try:
        names = sorted(os.listdir(inside))
    except (FileNotFoundError, NotADirectoryError):
        return  # Another rank has just removed it.
    for name in names:
        if match := _SHARD.fullmatch(name):
            scope: Scope = "rank" if match["rank"] else "host" if match["host"] else "leader"
            numbers = int(match["rank"] or 0), int(match["world"] or 0)
            yield Shard(
                os.path.join(inside, name), match["run"], scope, match["host"] or "", *numbers
            )


def is_for(shard: Shard, place: Place) -> bool:
    """Whether this rank can go on from that file."""
    if shard.scope == "rank":
        return (shard.rank, shard.world) == (place.rank, place.world)
    return shard.scope == "leader" or shard.host == place.host


def write_at_once(path: str, fill: Callable[[BinaryIO], object]) -> None:
    """Writes a file that has its name only when all of it is on the disk.

    Raises:
        OSError: it can't be written; nothing of it is left.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    try:
        with _open(temporary) as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
    # The name itself is on the disk only after that of its folder.
    _sync(folder)
    _sync(os.path.dirname(folder))


def remove_left_over(folder: str, place: Place) -> None:
    """Removes what this rank had not finished when it was killed, in all steps."""
    own = [f".{place.host}.rank-{place.rank}-of-"]
    own += [f".{place.host}.host.", f".{place.host}.latest."] if place.local_rank == 0 else []
    own += [".all."] if place.rank == 0 else []
    _remove_left_over(folder, tuple(own))
    for step in steps(folder):
        inside = step_folder(folder, step)
        for name in _remove_left_over(inside, tuple(own)):
            if name.startswith(SHARDED):
                _remove_left_over(os.path.join(inside, name), (f".rank-{place.rank}-of-",))


def remove_same(folder: str, step: int, mine: str, spared: str | None) -> None:
    """Removes what earlier runs had saved in the place of `mine`, a file's name, but for one run's."""
    keep = _SHARD.fullmatch(mine)
    assert keep, mine
    head = mine[: keep.start("run")]
    inside = step_folder(folder, step)
    with contextlib.suppress(OSError):
        for name in os.listdir(inside):
            match = _SHARD.fullmatch(name)
            if match and name != mine and name.startswith(head) and match["run"] != spared:
                os.remove(os.path.join(inside, name))


def prune(folder: str, before: int, kept: Collection[int]) -> None:
    """Removes the steps before one, but for those that are kept. Other ranks may do the same."""
    for step in steps(folder):
        if step < before and step not in kept:
            shutil.rmtree(step_folder(folder, step), ignore_errors=True)


def _remove_left_over(folder: str, heads: tuple[str, ...]) -> list[str]:
    """Removes the unfinished files that begin so. All names that there were."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(folder)
    for name in names:
        if name.endswith(".tmp") and name.startswith(heads) and not _is_being_written(name):
            with contextlib.suppress(OSError):
                os.remove(os.path.join(folder, name))
    return names


def _is_being_written(name: str) -> bool:
    """Whether the process that a name tells of lives: another rank of this host, still saving."""
    pid = name.split(".")[-2]
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # "pid (name) state ...": the name may hold anything, so from the last bracket on.
            state = file.read().rpartition(b")")[2].split()[0]
        return int(pid) != os.getpid() and state not in (b"Z", b"X")
    except (OSError, ValueError, IndexError):
        return False


def _open(path: str) -> BinaryIO:
    for _ in range(_TRIES):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Another rank may take an empty folder for an old one, and remove it.
        with contextlib.suppress(FileNotFoundError):
            return open(path, "wb")
    return open(path, "wb")


def _sync(folder: str) -> None:
    """Brings a folder's names to the disk, where this user may: the file is in place already."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in _UNSYNCED:
            raise
