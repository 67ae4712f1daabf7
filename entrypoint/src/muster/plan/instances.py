"""What is known of SageMaker's GPU instances and of the images for them. Effects: reads instances.toml.

Read where it is asked for: most jobs never do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any


def read_instances() -> Mapping[str, Any]:
    """The whole table; empty on Python 3.10, which can't read it."""
    try:
        import tomllib  # noqa: PLC0415  (Python 3.11 and newer)
    except ModuleNotFoundError:
        return {}
    with open(os.path.join(os.path.dirname(__file__), "instances.toml"), "rb") as file:
        table: Mapping[str, Any] = tomllib.load(file)
    return table


def family_of(instances: Mapping[str, Any], instance_type: str) -> Mapping[str, Any]:
    """The family of a type such as ml.p4d.24xlarge; empty for one that isn't known. Pure."""
    name, _, _ = instance_type.rpartition(".")
    families: Sequence[Mapping[str, Any]] = instances.get("families", ())
    return next((family for family in families if name in family["names"]), {})


def gpus_of(instances: Mapping[str, Any], instance_type: str) -> int | None:
    """The GPUs of a type; None where that isn't known. Pure."""
    _, _, size = instance_type.rpartition(".")
    count = family_of(instances, instance_type).get("counts", {}).get(size)
    return count if isinstance(count, int) else None
