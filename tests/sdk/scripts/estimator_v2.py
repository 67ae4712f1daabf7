"""SDK v2's Estimator with code on S3, in local mode against a stand-in of S3. Run by test_v2.py.

Arguments: the image, the form, the folder with the scripts, the channel's folder, the number of instances, the bucket.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

import boto3
from sagemaker.estimator import Estimator
from sagemaker.local import LocalSession

SCRIPT = "digits_ddp.py"
RUN = """#!/bin/bash
exec torchrun --nnodes="$NNODES" --node-rank="$NODE_RANK" --nproc-per-node="$NPROC_PER_NODE" \\
  --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" digits_ddp.py "$@"
"""


def main(image: str, form: str, scripts: str, training: str, instances: str, bucket: str) -> None:
    """Fits; raises when the job fails."""
    boto_session = boto3.Session("AKIDTEST", "canary-secret", region_name="us-east-1")
    session = LocalSession(boto_session=boto_session, default_bucket=bucket)
    session.config = {"local": {"local_code": False}}
    source = Path("source").resolve()
    shutil.copytree(scripts, source)
    form_of: dict[str, Any] = {
        # The SDK packs and uploads; the job fetches.
        "uploaded": {"entry_point": SCRIPT, "source_dir": str(source)},
        # With packages, from a folder in the archive, and a configuration that no hyperparameter could hold.
        "whole": {
            "entry_point": "whole.py",
            "source_dir": str(source),
            "hyperparameters": {"muster_config": "conf.yaml", "lr": 0.02},
        },
        # The archive is there already, and is a plain tar with one top folder.
        "address": {"entry_point": "run.sh", "source_dir": upload(boto_session, bucket, source)},
        # The SDK sends the archive as the channel `code`.
        "isolated": {
            "entry_point": SCRIPT,
            "source_dir": str(source),
            "enable_network_isolation": True,
        },
    }
    estimator = Estimator(
        image_uri=image,
        role="arn:aws:iam::111111111111:role/Any",
        instance_count=int(instances),
        instance_type="local",
        output_path=f"file://{Path.cwd()}/output",
        environment={"OMP_NUM_THREADS": "1", "AWS_REGION": "us-east-1"},
        sagemaker_session=session,
        **{"hyperparameters": {"epochs": 12, "lr": 0.02}, **form_of[form]},
    )
    estimator.fit({"training": f"file://{training}"})


def upload(session: Any, bucket: str, source: Path) -> str:
    """Returns the address of the scripts and a shell script, in an archive."""
    (source / "run.sh").write_text(RUN, encoding="utf-8")
    with tarfile.open("mine.tar", "w") as archive:
        archive.add(source, "project")
    session.client("s3").upload_file("mine.tar", bucket, "mine/sourcedir.tar.gz")
    return f"s3://{bucket}/mine/sourcedir.tar.gz"


if __name__ == "__main__":
    main(*sys.argv[1:])
