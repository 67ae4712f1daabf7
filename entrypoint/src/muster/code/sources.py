"""Where the user's code may be, in one order. Effects: looks at files."""

from __future__ import annotations

import os
from dataclasses import dataclass

from muster.contract.program import SUBMIT_HYPERPARAMETER
from muster.model import Job
from muster.settings import Settings

COMMAND_LINE = "the command line"
CHANNEL = "the channel code"


@dataclass(frozen=True)
class Source:
    """A place of code, and who names it."""

    address: str
    """A folder, an archive, a file:// or an s3:// address."""
    said_by: str
    required: bool = False
    """Whether nothing else will do: code that is named is never replaced by code that lies around."""

    def __str__(self) -> str:
        return f"{self.address} ({self.said_by})"


def find_sources(job: Job, settings: Settings) -> list[Source]:
    """All places, the first one first.

    1. the hyperparameter sagemaker_submit_directory
    2. the channel `code`
    3. SAGEMAKER_SUBMIT_DIRECTORY
    4. MUSTER_CODE_DIR, and /opt/ml/code: code in the image

    `muster train SCRIPT` without a submit directory looks in the current folder first, as any prompt.
    """
    channel = Source(os.path.join(job.paths.data, "code"), CHANNEL)
    baked = [
        Source(settings.code_dir or "", "MUSTER_CODE_DIR"),
        Source(job.paths.code, "in the image"),
    ]
    named = Source(job.submit_directory or "", job.submit_source, required=True)
    first = [named] if job.submit_source == SUBMIT_HYPERPARAMETER else []
    later = [] if first else [named]
    if job.program_source == COMMAND_LINE and not job.submit_directory:
        first = [Source(os.getcwd(), "the current folder")]
    return [
        source
        for source in (*first, channel, *later, *baked)
        if source.address and (source.required or os.path.isdir(source.address))
    ]
