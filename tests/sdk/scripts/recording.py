"""A session for SageMaker's SDKs in which nothing is sent, and what would have been is kept.

The SDKs stay as they are: botocore asks a handler before each call, and takes what the
handler returns for AWS's answer. Works for SDK v2 and v3.
"""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any, NoReturn

import boto3
import botocore.session
from botocore.awsrequest import AWSResponse

REGION = "us-east-1"
BUCKET = "bucket"
IMAGE = f"111111111111.dkr.ecr.{REGION}.amazonaws.com/muster/ddp:cpu"
ROLE = "arn:aws:iam::111111111111:role/Any"  # with a slash: else the SDKs ask AWS for it

KEPT = ("CreateTrainingJob", "CreateHyperParameterTuningJob")
ANSWERS: dict[str, dict[str, Any]] = {
    "ListBuckets": {"Buckets": [{"Name": BUCKET, "CreationDate": "2020-01-01"}]},
    "PutObject": {},
    "SimulatePrincipalPolicy": {"EvaluationResults": [{"EvalDecision": "allowed"}]},
    "CreateTrainingJob": {"TrainingJobArn": f"arn:aws:sagemaker:{REGION}:111111111111:any"},
    "CreateHyperParameterTuningJob": {},
    "DescribeTrainingJob": {"TrainingJobName": "job"},
    "GetCallerIdentity": {"Account": "111111111111"},
    "HeadBucket": {},
}
"""Every call that the SDKs make here. Another one fails the capture."""

# Two spellings: in the SDKs' names of jobs, and so in addresses as well.
_TIME = re.compile(r"\d{4}(-\d\d){5}-\d{3}|\d{14}")


class Recorder:
    """A boto3 session, and the jobs that were asked for through it."""

    def __init__(self) -> None:
        self._requests: list[dict[str, Any]] = []
        self._surprises: list[str] = []
        # What does not go through the handler goes nowhere.
        socket.socket.connect = socket.getaddrinfo = self._refuse
        core = botocore.session.Session()
        core.set_credentials("none", "none")
        core.register("before-call", self._answer)
        self.session = boto3.Session(botocore_session=core, region_name=REGION)

    def take(self) -> dict[str, Any]:
        """The one job that was asked for since the last call of this."""
        if self._surprises:
            raise AssertionError("\n".join(self._surprises))
        (request,) = self._requests
        self._requests.clear()
        return request

    def _answer(self, model: Any, params: dict[str, Any], **_: object) -> tuple[Any, Any]:
        if model.name not in ANSWERS:
            self._fail(f"{model.name} was called, and has no answer in ANSWERS")
        if model.name in KEPT:
            self._requests.append(json.loads(params["body"]))
        answer = {"ResponseMetadata": {}, **ANSWERS[model.name]}
        return AWSResponse("", 200, {}, None), answer

    def _refuse(self, *address: object, **_: object) -> NoReturn:
        self._fail(f"something would have left this process, for {address}")

    def _fail(self, message: str) -> NoReturn:
        # The SDKs go on after some errors, so raising it here is not enough.
        self._surprises.append(message)
        raise AssertionError(message)


def write(request: dict[str, Any], path: Path) -> None:
    """The request as a fixture: keys in order, and no time, which differs from run to run."""
    text = json.dumps(request, indent=2, sort_keys=True)
    path.write_text(_TIME.sub("TIME", text) + "\n", encoding="utf-8")
