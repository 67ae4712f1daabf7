"""Instance groups of a heterogeneous cluster, as the toolkit tells scripts of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.model import Job

_DISTRIBUTED = (
    "sagemaker_mpi_enabled",
    "sagemaker_parameter_server_enabled",
    "sagemaker_distributed_dataparallel_enabled",
    "sagemaker_pytorch_ddp_enabled",
    "sagemaker_pytorch_xla_multi_worker_enabled",
    "sagemaker_multi_worker_mirrored_strategy_enabled",
    "sagemaker_torch_distributed_enabled",
)
"""Any of these makes the current group the distribution's when no groups are named."""


@dataclass(frozen=True)
class Groups:
    """The groups of a job. Local mode and jobs of 2020 have none."""

    names: tuple[str, ...]
    by_name: Mapping[str, Any]
    current_hosts: tuple[str, ...]
    distribution: tuple[str, ...]
    distribution_hosts: tuple[str, ...]
    master: str
    """The first host of the distribution's groups, else the first of the job."""

    @property
    def heterogeneous(self) -> bool:
        return len(self.names) > 1


def make_groups(job: Job) -> Groups:
    """The groups as resourceconfig.json and the SDK's `distribution=` have them."""
    by_name = {
        item["instance_group_name"]: item
        for item in job.resource_config.get("instance_groups") or ()
        if isinstance(item, dict) and "instance_group_name" in item
    }
    distribution = _distribution(job)
    hosts = tuple(
        host for group in job.groups if group.name in distribution for host in group.hosts
    )
    hosts = hosts if job.groups else job.hosts
    return Groups(
        names=tuple(group.name for group in job.groups),
        by_name=by_name,
        current_hosts=next((g.hosts for g in job.groups if g.name == job.group), ()),
        distribution=distribution,
        distribution_hosts=hosts,
        master=(hosts or job.hosts)[0],
    )


def _distribution(job: Job) -> tuple[str, ...]:
    named = job.framework_params.get("sagemaker_distribution_instance_groups")
    if isinstance(named, list):
        return tuple(str(name) for name in named)
    asked = any(job.framework_params.get(key) for key in _DISTRIBUTED)
    return (job.group,) if asked else ()
