"""What SageMaker makes of a job that was asked for: each host's files below /opt/ml, and its
variables. docs/contract.md 1 says how each is known.

A job is a request to CreateTrainingJob, as the API takes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REGION = "us-east-1"
BASE = "/opt/ml/"
HOMOGENEOUS = "homogeneousCluster"

Job = Mapping[str, Any]


def first_job(request: Job) -> Job:
    """The job that a request leads to: itself, or the first one of a tuning job, in which every
    range has its lower end or its first value."""
    if "HyperParameterTuningJobName" not in request:
        return request
    config, definition = request["HyperParameterTuningJobConfig"], request["TrainingJobDefinition"]
    ranges = config["ParameterRanges"]
    categories = {r["Name"]: r["Values"][0] for r in ranges["CategoricalParameterRanges"]}
    numbers = {
        r["Name"]: r["MinValue"]
        for kind in ("IntegerParameterRanges", "ContinuousParameterRanges")
        for r in ranges[kind]
    }
    objective = config["HyperParameterTuningJobObjective"]["MetricName"]
    return {
        **definition,
        "TrainingJobName": f"{request['HyperParameterTuningJobName']}-001-0a1b2c3d",
        "ResourceConfig": definition["HyperParameterTuningResourceConfig"],
        "HyperParameters": {
            **definition["StaticHyperParameters"],
            **numbers,
            **categories,
            "_tuning_objective_metric": objective,
        },
    }


def make_groups(job: Job) -> list[dict[str, Any]]:
    """The instance groups as resourceconfig.json has them; algo-1 is in the first."""
    config = job["ResourceConfig"]
    asked = config.get("InstanceGroups") or [{"InstanceGroupName": HOMOGENEOUS, **config}]
    groups: list[dict[str, Any]] = []
    count = 0
    for group in asked:
        numbers = range(count + 1, count + group["InstanceCount"] + 1)
        count += len(numbers)
        groups.append(
            {
                "instance_group_name": group["InstanceGroupName"],
                "instance_type": group["InstanceType"],
                "hosts": sorted(f"algo-{number}" for number in numbers),
            }
        )
    return groups


def hosts_of(job: Job) -> list[str]:
    """The job's hosts, sorted as text as the platform has them: algo-10 before algo-2."""
    return sorted(host for group in make_groups(job) for host in group["hosts"])


def lay_out(job: Job, host: str, base: Path) -> dict[str, str]:
    """Writes a host's files below `base`, which stands for /opt/ml, with empty channels: in Pipe
    mode a FIFO, else a folder.

    Returns the variables that its container starts with.
    """
    config = base / "input" / "config"
    config.mkdir(parents=True)
    channels = _channels(job)
    files = {
        "hyperparameters": job.get("HyperParameters", {}),
        "resourceconfig": _resources(job, host),
        "inputdataconfig": channels,
        **_other_files(job),
    }
    for name, value in files.items():
        (config / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    for folder in ("model", "output/data", "input/data", *_checkpoints(job)):
        (base / folder).mkdir(parents=True)
    for channel, entry in channels.items():
        path = base / "input" / "data" / channel
        if entry["TrainingInputMode"] == "Pipe":
            os.mkfifo(f"{path}_0")
        else:
            path.mkdir()
    name = job["TrainingJobName"]
    return {
        "TRAINING_JOB_NAME": name,
        "TRAINING_JOB_ARN": f"arn:aws:sagemaker:{REGION}:111111111111:training-job/{name.lower()}",
        "AWS_REGION": REGION,
        **job.get("Environment", {}),
    }


def _resources(job: Job, host: str) -> dict[str, Any]:
    groups = make_groups(job)
    (own,) = (group for group in groups if host in group["hosts"])
    return {
        "current_host": host,
        "current_instance_type": own["instance_type"],
        "current_group_name": own["instance_group_name"],
        "hosts": hosts_of(job),
        "instance_groups": groups,
        "network_interface_name": "eth0",
        "topology": None,
    }


def _channels(job: Job) -> dict[str, dict[str, str]]:
    default = job["AlgorithmSpecification"]["TrainingInputMode"]
    channels = {}
    for channel in job.get("InputDataConfig", []):
        source = channel["DataSource"]["S3DataSource"]
        entry = {
            "TrainingInputMode": channel.get("InputMode", default),
            "S3DistributionType": source.get("S3DataDistributionType", "FullyReplicated"),
            "RecordWrapperType": channel.get("RecordWrapperType", "None"),
        }
        if "ContentType" in channel:
            entry["ContentType"] = channel["ContentType"]
        channels[channel["ChannelName"]] = entry
    return channels


def _checkpoints(job: Job) -> list[str]:
    """The folder that is kept in step with S3, where the job has one below /opt/ml."""
    local = job.get("CheckpointConfig", {}).get("LocalPath", "")
    return [local.removeprefix(BASE)] if local.startswith(BASE) else []


def _other_files(job: Job) -> dict[str, Any]:
    """The files of what a job may have: the platform leaves out what it doesn't use."""
    files: dict[str, Any] = {}
    if "CheckpointConfig" in job:
        files["checkpointconfig"] = {"LocalPath": job["CheckpointConfig"]["LocalPath"]}
    if "DebugHookConfig" in job:
        files["debughookconfig"] = {
            "LocalPath": "/opt/ml/output/tensors",
            "HookParameters": None,
            **job["DebugHookConfig"],
        }
    if "ProfilerConfig" in job:
        files["profilerconfig"] = job["ProfilerConfig"]
    if "TensorBoardOutputConfig" in job:
        files["tensorboardoutputconfig"] = {
            "LocalPath": "/opt/ml/output/tensorboard/",
            **job["TensorBoardOutputConfig"],
        }
    return files
