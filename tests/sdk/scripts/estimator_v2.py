"""Runs the README's Estimator with SDK v2 in local mode, without AWS. Run by test_v2.py.

Arguments: a file with the README's snippet, a scratch folder. The SDK is not modified:
what is set here is what keeps it from asking AWS.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import boto3
from sagemaker.local import LocalSession


def main(snippet: str, scratch: str) -> None:
    """Fits on two local instances; raises when the job fails."""
    Path(scratch).mkdir(parents=True, exist_ok=True)
    session = LocalSession(boto_session=boto3.Session(region_name="us-east-1"))
    session.config = {"local": {"local_code": True, "container_root": scratch}}
    # A role with a slash is taken as it is; without one the SDK asks IAM.
    role = "arn:aws:iam::111111111111:role/Dummy"
    runpy.run_path(snippet, {"session": session, "role": role})


if __name__ == "__main__":
    main(*sys.argv[1:])
