"""What a script's own error means in the job that it ran in. Pure."""

from __future__ import annotations

import dataclasses
import re

from muster.model import Cause, Job

_VARIABLE = re.compile(r"^KeyError: 'SM_CHANNEL_(?P<name>[^']+)'")
_MISSING_PATH = re.compile(r"^FileNotFoundError: .*'(?P<path>/[^']*)'")


def with_hint(cause: Cause, job: Job | None) -> Cause:
    """`cause` with a remedy, where it has none and the job's channels explain the error.

    A script that asks for SM_CHANNEL_TRAIN, when the data was sent as `training`, fails with
    a KeyError that doesn't say what there is.
    """
    if job is None or cause.remedy or cause.kind != "user":
        return cause
    missing = _missing_channel(cause.headline, job)
    if missing is None:
        return cause
    names = ", ".join(channel.name for channel in job.channels) or "none"
    hint = f"The job has no channel {missing}. Its channels: {names}."
    return dataclasses.replace(cause, remedy=hint)


def _missing_channel(headline: str, job: Job) -> str | None:
    names = [channel.name for channel in job.channels]
    if match := _VARIABLE.match(headline):
        return match["name"].lower()
    match = _MISSING_PATH.match(headline)
    if not match or not match["path"].startswith(f"{job.paths.data}/"):
        return None
    name = match["path"].removeprefix(f"{job.paths.data}/").partition("/")[0]
    # In Pipe mode `train` has the FIFOs train_0, train_1 and so on.
    known = name in names or re.sub(r"_\d+$", "", name) in names
    return None if known or not name else name
