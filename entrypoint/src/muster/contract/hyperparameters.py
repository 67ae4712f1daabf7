"""Hyperparameters: what was sent, what it means, and for whom it is. Pure.

The platform sends every value as a string. Some callers JSON-encode it (SDK),
some don't (Step Functions, the raw API), and one job can hold both, so each value
is decoded on its own: JSON where it is JSON, else the text (contract.md 2).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.contract.exportable import refuse_unexportable
from muster.model import HyperParameter

CONFIG = "muster_config"
"""Names a file with more hyperparameters."""
_RESERVED_PREFIX = "sagemaker_"
_MARGIN = 100
INSTEAD = "Send it as base64, or as a file in a channel."
"""What to do with a value that no program can be given."""
_NOT_SHOWN = frozenset(
    {
        "sagemaker_program",
        "sagemaker_submit_directory",
        "sagemaker_enable_cloudwatch_metrics",
        "sagemaker_region",
        "sagemaker_container_log_level",
        "sagemaker_job_name",
        "sagemaker_s3_output",
        "default_user_module_name",
        "_tuning_objective_metric",
        CONFIG,
    }
)
"""Reserved keys that the toolkit reads itself and shows to no script (its params.py), and our own."""

_RESERVED_KEYS = frozenset({"_tuning_objective_metric", "default_user_module_name", CONFIG})


def decode(key: str, raw: Any) -> HyperParameter:
    """One hyperparameter with its text and its value.

    Scalars keep their text (`1e5`, `1.10`, `007`), a JSON string loses exactly one
    level of quotes. Text that is not JSON is its own value.
    """
    if isinstance(raw, str):
        text = raw
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            return HyperParameter(key, raw, raw, raw)
    else:
        text, value = compact(raw), raw
    if isinstance(value, str):
        return HyperParameter(key, value, value, raw)
    return HyperParameter(key, text, value if _can_be_written(value) else text, raw)


def _can_be_written(value: Any) -> bool:
    """Whether `value` is JSON again for every reader, from wherever it is written.

    NaN and Infinity are not JSON, and 12e45678 (a commit id) is no number. Nesting counts
    with a margin: what can be read here must also be written further down the stack.
    """
    deeper = value
    for _ in range(_MARGIN if isinstance(value, (list, dict)) else 0):
        deeper = [deeper]
    try:
        json.dumps(deeper, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


def compact(value: Any) -> str:
    """`value` as JSON without blanks, as the script and SM_HPS get it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def is_reserved(key: str) -> bool:
    """Whether the container, not the script, is meant by `key` (contract.md 2)."""
    return key.startswith(_RESERVED_PREFIX) or key in _RESERVED_KEYS


@dataclass(frozen=True)
class Split:
    """Hyperparameters by whom they are for."""

    user: tuple[HyperParameter, ...]
    """The script's, sorted by key."""
    reserved: Mapping[str, str]
    """The container's, as text; a null is left out."""
    framework: Mapping[str, Any]
    """Those of the container's that the toolkit shows in SM_FRAMEWORK_PARAMS."""


def split(raw: Mapping[str, Any]) -> Split:
    """The user's hyperparameters and the reserved ones.

    Raises:
        ContractError: a key or value that no argument and no variable can carry.
    """
    decoded = [decode(key, raw[key]) for key in sorted(raw)]
    for item in decoded:
        carried = item.key + item.text + compact(item.value)
        refuse_unexportable(f"hyperparameter {item.key!r}", carried, INSTEAD)
    reserved = [item for item in decoded if is_reserved(item.key)]
    return Split(
        user=tuple(item for item in decoded if not is_reserved(item.key)),
        reserved={item.key: item.text for item in reserved if item.value is not None},
        framework={item.key: item.value for item in reserved if item.key not in _NOT_SHOWN},
    )
