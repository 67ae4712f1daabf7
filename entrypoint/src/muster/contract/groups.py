"""Instance groups of a heterogeneous cluster, as the toolkit tells scripts of them. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.errors import PlanError
from muster.model import Job

_NAMED = "sagemaker_distribution_instance_groups"
_DISTRIBUTED = (
    "sagemaker_mpi_enabled",
    "sagemaker_parameter_server_enabled",
    "sagemaker_distributed_dataparallel_enabled",
    "sagemaker_pytorch_ddp_enabled",
    "sagemaker_pytorch_xla_multi_worker_enabled",
    "sagemaker_multi_worker_mirrored_strategy_enabled",
    "sagemaker_torch_distributed_enabled",
)
"""Any of these asks for a distribution where no groups are named."""


@dataclass(frozen=True)
class Groups:
    """The groups of a job. Local mode and jobs of 2020 have none."""

    names: tuple[str, ...]
    by_name: Mapping[str, Any]
    current_hosts: tuple[str, ...]
    distribution: tuple[str, ...]
    distribution_hosts: tuple[str, ...]
    world: tuple[str, ...]
    """The hosts whose ranks train together: those of the groups that the job names, else all."""

    @property
    def heterogeneous(self) -> bool:
        return len(self.names) > 1

    @property
    def master(self) -> str:
        return self.world[0]


def make_groups(job: Job) -> Groups:
    """The groups as resourceconfig.json and the SDK's `distribution=` have them.

    Raises:
        PlanError: the distribution names a group that the job doesn't have.
    """
    raw = job.resource_config.get("instance_groups")
    by_name = {
        item["instance_group_name"]: item
        for item in (raw if isinstance(raw, list) else ())
        if isinstance(item, dict) and isinstance(item.get("instance_group_name"), str)
    }
    distribution = _distribution(job)
    unknown = set(distribution) - {group.name for group in job.groups}
    if job.groups and unknown:
        listed = ", ".join(group.name for group in job.groups)
        what = f"{_NAMED} names {', '.join(sorted(unknown))}; the job's groups are {listed}"
        raise PlanError(what, "Name groups of the job in `distribution`.")
    # In the job's own order, which is the ranks': algo-2 leads algo-10.
    chosen = {host for group in job.groups if group.name in distribution for host in group.hosts}
    hosts = tuple(host for host in job.hosts if host in chosen) if job.groups else job.hosts
    return Groups(
        names=tuple(group.name for group in job.groups),
        by_name=by_name,
        current_hosts=next((g.hosts for g in job.groups if g.name == job.group), ()),
        distribution=distribution,
        distribution_hosts=hosts,
        world=hosts if _NAMED in job.framework_params and hosts else job.hosts,
    )


def _distribution(job: Job) -> tuple[str, ...]:
    named = _read_list(job.framework_params.get(_NAMED))
    if named is not None:
        return named
    asked = any(job.framework_params.get(key) for key in _DISTRIBUTED)
    # The SDK drops the groups for torch_distributed (contract.md 7). The toolkit then makes a
    # cluster of each group; we make the one that was asked for.
    return (tuple(group.name for group in job.groups) or (job.group,)) if asked else ()


def _read_list(sent: Any) -> tuple[str, ...] | None:
    """Names of groups, as JSON or as Python writes a list: a generic Estimator sends `['gpu']`."""
    names = sent
    if isinstance(sent, str):
        import ast  # noqa: PLC0415  (for a rare case)

        with contextlib.suppress(ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            names = ast.literal_eval(sent)
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        what = f"hyperparameter {_NAMED}={sent!r} is no list of names"
        raise PlanError(what, 'Send names of groups as JSON: ["gpu"].')
    return tuple(names)
