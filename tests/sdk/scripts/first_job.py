"""Runs examples/sagemaker/first_job.py where nothing is sent. Run by test_first_job.py.

Arguments: the file to write the request to, the example's file, and its arguments.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import boto3
import recording


def main(request: str, example: str, *words: str) -> None:
    """Does not wait for a job that never runs."""
    recorder = recording.Recorder()
    # What a Session of SDK v2 takes when it is given none.
    boto3.DEFAULT_SESSION = recorder.session
    sys.argv = [example, *words, "--no-wait"]
    runpy.run_path(example, run_name="__main__")
    recording.write(recorder.take(), Path(request))


if __name__ == "__main__":
    main(*sys.argv[1:])
