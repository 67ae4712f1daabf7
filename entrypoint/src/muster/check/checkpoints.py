"""Checkpoints need a folder that can be written to: seen before the training, not after its first hours.

Effects: makes the folder, writes a small file in it and removes it.
"""

from __future__ import annotations

import errno
import os

from muster.check.folders import write
from muster.errors import CheckError
from muster.model import Job, file_part

_LITTLE = 2**30
"""Bytes: less than this is less than most checkpoints."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


def look_at_checkpoints(job: Job) -> tuple[str, ...]:
    """What is odd about the folder for checkpoints, one line each.

    A job for which nothing names the folder, and where there is none, does not save in it.

    Raises:
        CheckError: the folder is wanted, and this user can't write there, or it is full.
    """
    folder = job.checkpoints
    if not job.checkpoints_source and not os.path.isdir(folder):
        return ()
    try:
        os.makedirs(folder, exist_ok=True)
        # Full is told as full, though the probe may still fit into what root has in reserve.
        free = _free(folder)
        if free != 0:
            name = f".muster-{file_part(job.current_host)}-{os.getpid()}"
            write(os.path.join(folder, name), sync=True)
    except OSError as error:
        if error.errno in _FULL:
            raise _full(job) from error
        raise _unwritable(job, error) from error
    if free == 0:
        raise _full(job)
    if free is not None and free < _LITTLE:
        return (f"only {free // 2**20} MiB are free for checkpoints in {folder}",)
    return ()


def _free(folder: str) -> int | None:
    """Bytes that this user may still write; None where the file system doesn't say."""
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize if room.f_blocks else None


def _unwritable(job: Job, error: OSError) -> CheckError:
    named = f" ({job.checkpoints_source})" if job.checkpoints_source else ""
    what = (
        f"checkpoints can't be written to {job.checkpoints}{named} on {job.current_host}: "
        f"{error.strerror}"
    )
    user = f"this container's user is {os.getuid()}"
    return CheckError(
        what, f"Mount the folder writable; {user}. MUSTER_CHECKPOINT_DIR names another one."
    )


def _full(job: Job) -> CheckError:
    what = f"no room for checkpoints: {job.checkpoints} on {job.current_host} is full"
    return CheckError(
        what, "Give the job a larger volume (volume_size), or remove old checkpoints."
    )
