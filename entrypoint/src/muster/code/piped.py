"""Code that a job sends in Pipe mode. Effects: looks for a file in the current folder.

In Pipe mode a channel is no folder but a FIFO an epoch (contract.md 1.4): code that is sent so can't be found, and
other code in the image, which the job did not mean, must not run in its place.
"""

from __future__ import annotations

import os

from muster.errors import CodeError
from muster.model import Channel, Job

_CODE = "code"


def refuse_piped(job: Job) -> None:
    """Returns where the code does not come through a FIFO. Opens none, and asks the system of none.

    SDK v2 sends its own channel `code`, with network isolation, in the job's mode: Pipe, where
    the Estimator has input_mode="Pipe".

    Raises:
        CodeError: the submit directory lies in a channel in Pipe mode; or the job names none,
            and has a channel `code` in that mode.
    """
    channel = _source(job)
    if channel is None or channel.input_mode != "Pipe":
        return
    what = (
        f"the code would come from channel {channel.name}, which is in Pipe mode: a FIFO, no folder"
    )
    remedy = (
        f'Send the channel {channel.name} as File: TrainingInput(..., input_mode="File"), or the whole job: '
        'input_mode="File". Data channels may stay in Pipe mode.'
    )
    raise CodeError(what, remedy)


def _source(job: Job) -> Channel | None:
    """The channel from which the code comes, or would."""
    if job.submit_directory:
        folder = job.submit_directory.rstrip("/") + "/"
        inside = (each for each in job.channels if folder.startswith(f"{each.path}/"))
        return next(inside, None)
    if job.program_source == "the command line" and os.path.isfile(job.program or ""):
        return None
    return next((each for each in job.channels if each.name == _CODE), None)
