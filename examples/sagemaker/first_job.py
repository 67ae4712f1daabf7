"""Train the handwritten digits on SageMaker, in the muster image, with SDK v2 (pip install 'sagemaker<3').

    python examples/sagemaker/first_job.py --image IMAGE --role ROLE

uploads examples/ and the data to the session's bucket, trains on two instances and prints where
the model is. --local trains in containers on this machine instead, without an AWS account.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import boto3
from sagemaker.estimator import Estimator
from sagemaker.local import LocalSession
from sagemaker.session import Session

EXAMPLES = Path(__file__).resolve().parent.parent
PREFIX = "muster-first-job"


def read_options(words: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line's options. Effects: exits on a wrong one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--image", required=True, help="the image in your ECR repository")
    parser.add_argument("--role", default="arn:aws:iam::111111111111:role/Any", help="its ARN")
    parser.add_argument("--instances", type=int, default=2)
    parser.add_argument("--instance-type", default="ml.c5.xlarge")
    parser.add_argument("--data", type=Path, default=Path("build/digits"), help="see `make run`")
    parser.add_argument("--no-wait", action="store_true", help="return when the job has begun")
    parser.add_argument("--local", action="store_true", help="in containers on this machine")
    return parser.parse_args(words)


def local_session() -> LocalSession:
    """Return a session that asks nothing of AWS."""
    session = LocalSession(boto_session=boto3.Session("none", "none", region_name="us-east-1"))
    session.config = {"local": {"local_code": True}}
    return session


def main(words: Sequence[str] | None = None) -> None:
    """Upload, train, tell where the model is."""
    options = read_options(words)
    session = local_session() if options.local else Session()

    def channel(name: str, folder: Path) -> str:
        if options.local:
            return f"file://{folder.resolve()}"
        address: str = session.upload_data(str(folder), key_prefix=f"{PREFIX}/{name}")
        return address

    estimator = Estimator(
        image_uri=options.image,
        role=options.role,
        instance_count=options.instances,
        instance_type="local" if options.local else options.instance_type,
        entry_point="digits_ddp.py",
        source_dir=str(EXAMPLES),
        hyperparameters={"epochs": 12},
        # Local mode: all hosts share this machine's cores.
        environment={"OMP_NUM_THREADS": "1"} if options.local else None,
        output_path=f"file://{Path.cwd()}/{PREFIX}" if options.local else None,
        max_run=1800,
        sagemaker_session=session,
    )
    estimator.fit({"training": channel("training", options.data)}, wait=not options.no_wait)
    if not options.no_wait:
        print(f"model: {estimator.model_data}")


if __name__ == "__main__":
    main()
