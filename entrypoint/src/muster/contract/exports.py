"""The SM_* variables that a script finds. Pure.

The union of what AWS's sagemaker-training and ModelTrainer set, in the toolkit's
form (contract.md 1.5): a script must not notice which container it runs in. Where
we differ on purpose, docs/migration.md says so, and a test holds the list complete.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from muster.contract.groups import Groups, make_groups
from muster.contract.names import Names, make_names
from muster.model import Code, HyperParameter, Job


def sm_exports(
    job: Job, code: Code, arguments: Sequence[str], master: tuple[str, int]
) -> dict[str, str]:
    """Every SM_* variable of this host.

    Args:
        job: the job.
        code: its code on disk.
        arguments: what the script is given on its command line.
        master: where the ranks meet, a name or address and a port.
    """
    groups = make_groups(job)
    env = {
        **_places(job, code),
        **_cluster(job, groups),
        "SM_MASTER_ADDR": master[0],
        "SM_MASTER_PORT": str(master[1]),
        "SM_CHANNELS": _json(sorted(channel.name for channel in job.channels)),
        "SM_HPS": _json({item.key: item.value for item in job.hyperparameters}),
        "SM_FRAMEWORK_PARAMS": _json(dict(job.framework_params)),
        "SM_USER_ARGS": _json(list(arguments)),
        "SM_RESOURCE_CONFIG": _json(dict(job.resource_config)),
        "SM_INPUT_DATA_CONFIG": _json(dict(job.input_data_config)),
        "SM_LOG_LEVEL": str(job.log_level),
        "SM_FRAMEWORK_MODULE": "",
        "SM_TRAINING_ENV": _json(_training_env(job, code, groups, master)),
        "SAGEMAKER_JOB_NAME": job.name,
        "SAGEMAKER_REGION": job.region,
        "CURRENT_HOST": job.current_host,
    }
    if job.resource_config.get("topology"):
        env["SM_TOPOLOGY"] = _json(job.resource_config["topology"])
    channels, hyperparameters = _names(job)
    paths = {channel.name: channel.path for channel in job.channels}
    texts = {item.key: _exported(item) for item in job.hyperparameters}
    env |= {name: paths[key] for name, key in channels.keys.items()}
    env |= {name: texts[key] for name, key in hyperparameters.keys.items()}
    return env


def shared_names(job: Job) -> tuple[str, ...]:
    """A line for each variable that two channels or two hyperparameters would have."""
    return tuple(
        f"{kind} {' and '.join(keys)} share {name}: it has that of {keys[-1]}"
        for kind, names in zip(("channels", "hyperparameters"), _names(job), strict=True)
        for name, keys in names.shared.items()
    )


def _names(job: Job) -> tuple[Names, Names]:
    return (
        make_names("SM_CHANNEL_", [channel.name for channel in job.channels]),
        make_names("SM_HP_", [item.key for item in job.hyperparameters]),
    )


def _places(job: Job, code: Code) -> dict[str, str]:
    paths = job.paths
    return {
        "SM_INPUT_DIR": paths.input,
        "SM_INPUT_DATA_DIR": paths.data,
        "SM_INPUT_CONFIG_DIR": paths.config,
        "SM_MODEL_DIR": paths.model,
        "SM_OUTPUT_DIR": paths.output,
        "SM_OUTPUT_DATA_DIR": paths.output_data,
        "SM_OUTPUT_INTERMEDIATE_DIR": paths.intermediate,
        "SM_OUTPUT_FAILURE": paths.failure,
        "SM_MODULE_DIR": code.directory,
        "SM_SOURCE_DIR": code.directory,
        "SM_MODULE_NAME": _module_name(code),
        "SM_USER_ENTRY_POINT": code.entry,
        "SM_ENTRY_SCRIPT": code.entry,
    }


def _cluster(job: Job, groups: Groups) -> dict[str, str]:
    return {
        "SM_HOSTS": _json(list(job.hosts)),
        "SM_HOST_COUNT": str(len(job.hosts)),
        "SM_CURRENT_HOST": job.current_host,
        "SM_CURRENT_HOST_RANK": str(job.hosts.index(job.current_host)),
        "SM_CURRENT_INSTANCE_TYPE": job.instance_type,
        "SM_CURRENT_INSTANCE_GROUP": job.group,
        "SM_CURRENT_INSTANCE_GROUP_HOSTS": _json(list(groups.current_hosts)),
        "SM_INSTANCE_GROUPS": _json(list(groups.names)),
        "SM_INSTANCE_GROUPS_DICT": _json(dict(groups.by_name)),
        "SM_DISTRIBUTION_INSTANCE_GROUPS": _json(list(groups.distribution)),
        "SM_IS_HETERO": _json(groups.heterogeneous),
        "SM_NETWORK_INTERFACE_NAME": job.interface,
        "SM_NUM_CPUS": str(job.machine.cpus),
        "SM_NUM_GPUS": str(job.machine.gpus),
        "SM_NUM_NEURONS": "0",  # Trainium is not supported; a script that asks finds none.
    }


def _training_env(job: Job, code: Code, groups: Groups, master: tuple[str, int]) -> dict[str, Any]:
    """What SM_TRAINING_ENV holds: the toolkit's properties and ModelTrainer's."""
    paths = job.paths
    return {
        "additional_framework_parameters": dict(job.framework_params),
        "channel_input_dirs": {channel.name: channel.path for channel in job.channels},
        "current_host": job.current_host,
        "current_instance_group": job.group,
        "current_instance_group_hosts": list(groups.current_hosts),
        "current_instance_type": job.instance_type,
        "distribution_hosts": list(groups.distribution_hosts),
        "distribution_instance_groups": list(groups.distribution),
        "framework_module": None,
        "hosts": list(job.hosts),
        "hyperparameters": {item.key: item.value for item in job.hyperparameters},
        "input_config_dir": paths.config,
        "input_data_config": dict(job.input_data_config),
        "input_data_dir": paths.data,
        "input_dir": paths.input,
        "instance_groups": list(groups.names),
        "instance_groups_dict": dict(groups.by_name),
        "is_hetero": groups.heterogeneous,
        "is_master": job.current_host == groups.master,
        "is_modelparallel_enabled": None,
        "is_smddpmprun_installed": False,
        "is_smddprun_installed": False,
        "job_name": job.name,
        "log_level": job.log_level,
        "master_addr": master[0],
        "master_hostname": groups.master,
        "master_port": master[1],
        "model_dir": paths.model,
        "module_dir": code.directory,
        "module_name": _module_name(code),
        "network_interface_name": job.interface,
        "num_cpus": job.machine.cpus,
        "num_gpus": job.machine.gpus,
        "num_neurons": 0,
        "output_data_dir": paths.output_data,
        "output_dir": paths.output,
        "output_intermediate_dir": paths.intermediate,
        "resource_config": dict(job.resource_config),
        "topology": job.resource_config.get("topology") or [],
        "user_entry_point": code.entry,
    }


def _module_name(code: Code) -> str:
    return code.entry.removesuffix(".py")


def _json(value: Any) -> str:
    """As the toolkit writes it: sorted keys, no blanks, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _exported(item: HyperParameter) -> str:
    if item.value is None:
        return ""
    if isinstance(item.value, (bool, list, dict)):
        return _json(item.value)
    return item.text
