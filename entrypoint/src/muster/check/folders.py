"""The folders that a job writes to: room, inodes, whether a file can be made. Effects: writes a small file and removes it.

Each folder is looked at in a thread of its own: a file server that is gone costs its time-out.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from functools import partial

from muster.check.bounded import all_within
from muster.check.evidence import once
from muster.check.finding import Here
from muster.model import file_part

LOOK_S = 3.0
_PROBE = b"muster\n" * 512


@dataclass(frozen=True)
class Room:
    """What a folder's file system says of itself. Sizes in bytes."""

    path: str
    size: int = 0
    """0 where it doesn't say."""
    free: int = 0
    """For this user."""
    inodes: int = 0
    """0 where it doesn't count them."""
    inodes_free: int = 0
    unseen: str = ""
    """Why it could not be looked at."""


@dataclass(frozen=True)
class Tried:
    """What came of a small file in a folder."""

    path: str
    there: bool = True
    error: str = ""
    """The system's words; empty when it went well."""
    unseen: str = ""
    """Why it could not be tried."""


def rooms(here: Here) -> tuple[Room, ...]:
    """The room of all folders. Looked at once, for all checks."""
    return once(here, "rooms", lambda: _look_at_all(here))


def tries(here: Here) -> tuple[Tried, ...]:
    """A file made in all folders but that for checkpoints, where checkpoints.py has made one."""
    name = f".muster-{file_part(here.job.current_host)}-{os.getpid()}"
    paths = (here.job.paths.model, here.job.paths.output_data, temporary(here))
    found = all_within(LOOK_S, {path: partial(_try, path, name) for path in paths})
    return tuple(
        Tried(path, unseen=str(answer)) if isinstance(answer, Exception) else answer
        for path, answer in found.items()
    )


def temporary(here: Here) -> str:
    """Where the job's programs make files that nobody keeps."""
    return here.env.get("TMPDIR") or "/tmp"


def write(path: str, *, sync: bool = False) -> None:
    """Writes a small file and removes it. Raises OSError.

    Args:
        path: its name.
        sync: whether to wait for the disk, which others may keep busy for seconds.
    """
    try:
        with open(path, "xb") as file:
            file.write(_PROBE)
            if sync:
                file.flush()
                os.fsync(file.fileno())
    finally:
        with contextlib.suppress(OSError):
            os.remove(path)


def _look_at_all(here: Here) -> tuple[Room, ...]:
    job = here.job
    wanted = job.checkpoints_source or os.path.isdir(job.checkpoints)
    paths = [job.paths.model, job.paths.output_data, temporary(here)]
    looks = [job.checkpoints, *paths] if wanted else paths
    found = all_within(LOOK_S, {path: partial(_look, path) for path in looks})
    return tuple(
        Room(path, unseen=str(answer)) if isinstance(answer, Exception) else answer
        for path, answer in found.items()
    )


def _look(path: str) -> Room:
    told = os.statvfs(_existing(path))
    block = told.f_frsize
    return Room(
        path, told.f_blocks * block, told.f_bavail * block, told.f_files, int(told.f_favail)
    )


def _try(path: str, name: str) -> Tried:
    if os.path.lexists(path) and not os.path.isdir(path):
        return Tried(path, error="it is no folder")
    if not os.path.isdir(path):
        # By hand, before a job has made it: nothing is made for a look.
        writable = os.access(_existing(path), os.W_OK | os.X_OK)
        return Tried(path, there=False, error="" if writable else "it can't be made")
    try:
        write(os.path.join(path, name))
    except OSError as error:
        return Tried(path, error=error.strerror or str(error))
    return Tried(path)


def _existing(path: str) -> str:
    """The folder itself, or the nearest above it that is there."""
    while not os.path.isdir(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path
