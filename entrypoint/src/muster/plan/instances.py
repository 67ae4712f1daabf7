"""What is known of SageMaker's GPU instances and of the images for them. Effects: reads instances.toml.

Read where it is asked for: most jobs never do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
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
