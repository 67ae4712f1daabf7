"""SDK v2's PyTorch estimator with `distribution`, in local mode without AWS. Run by test_v2.py.

Arguments: the image, the script, the channel's folder, the number of instances, `distribution` as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import boto3
from sagemaker.local import LocalSession
from sagemaker.pytorch import PyTorch

TORCH = '{"torch_distributed": {"enabled": true}}'


def main(image: str, script: str, training: str, instances: str, how: str = TORCH) -> None:
    """Fits; raises when the job fails."""
    session = LocalSession(boto_session=boto3.Session("none", "none", region_name="us-east-1"))
    session.config = {"local": {"local_code": True}}
    estimator = PyTorch(
        image_uri=image,
        entry_point=str(Path(script).resolve()),
        role="arn:aws:iam::111111111111:role/Any",
        instance_count=int(instances),
        instance_type="local",
        distribution=json.loads(how),
        hyperparameters={"epochs": 12, "lr": 0.02},
        output_path=f"file://{Path.cwd()}/output",
        environment={"OMP_NUM_THREADS": "1"},
        sagemaker_session=session,
    )
    estimator.fit({"training": f"file://{training}"})


if __name__ == "__main__":
    main(*sys.argv[1:])
