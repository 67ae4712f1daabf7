"""The SM_* variables that a script finds, made from the Job. Pure.

Names and forms are those of AWS's own toolkit and of ModelTrainer (contract.md
1.5): a script that reads them must not notice which container it runs in.
"""

from __future__ import annotations

import re

from muster.contract import argv
from muster.contract.hyperparameters import compact
from muster.model import HyperParameter, Job


def sm_exports(job: Job) -> dict[str, str]:
    """The variables that follow from the job alone; plan/ adds those of code and topology."""
    paths = job.paths
    env = {
        "SM_HOSTS": compact(list(job.hosts)),
        "SM_HOST_COUNT": str(len(job.hosts)),
        "SM_CURRENT_HOST": job.current_host,
        "SM_CURRENT_HOST_RANK": str(job.hosts.index(job.current_host)),
        "SM_CURRENT_INSTANCE_TYPE": job.instance_type,
        "SM_CURRENT_INSTANCE_GROUP": job.group,
        "SM_NETWORK_INTERFACE_NAME": job.interface,
        "SM_NUM_CPUS": str(job.machine.cpus),
        "SM_NUM_GPUS": str(job.machine.gpus),
        "SM_INPUT_DIR": paths.input,
        "SM_INPUT_DATA_DIR": paths.data,
        "SM_INPUT_CONFIG_DIR": paths.config,
        "SM_MODEL_DIR": paths.model,
        "SM_OUTPUT_DIR": paths.output,
        "SM_OUTPUT_DATA_DIR": paths.output_data,
        "SM_OUTPUT_INTERMEDIATE_DIR": paths.intermediate,
        "SM_OUTPUT_FAILURE": paths.failure,
        "SM_RESOURCE_CONFIG": compact(dict(job.resource_config)),
        "SM_INPUT_DATA_CONFIG": compact(dict(job.input_data_config)),
        "SM_CHANNELS": compact(sorted(channel.name for channel in job.channels)),
        "SM_HPS": compact({item.key: item.value for item in job.hyperparameters}),
        "SM_USER_ARGS": compact(list(argv.plain(job.hyperparameters))),
        "SAGEMAKER_JOB_NAME": job.name,
    }
    for channel in job.channels:
        _put(env, "SM_CHANNEL_", channel.name, channel.path)
    for item in job.hyperparameters:
        _put(env, "SM_HP_", item.key, _exported(item))
    return env


def _put(env: dict[str, str], prefix: str, key: str, value: str) -> None:
    """Both spellings: AWS's, which only upper-cases, and one that a shell can read."""
    upper = key.upper()
    if upper and "=" not in upper:
        env[prefix + upper] = value
    env.setdefault(prefix + re.sub(r"[^A-Z0-9_]", "_", upper), value)


def _exported(item: HyperParameter) -> str:
    if item.value is None:
        return ""
    if isinstance(item.value, (bool, list, dict)):
        return compact(item.value)
    return item.text
