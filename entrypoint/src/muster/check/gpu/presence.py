"""Whether this host has a GPU at all. Effects: looks for a file.

Apart from the rest, which CPU jobs never import.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from muster.check.finding import Finding, Here, skipped


def absence(here: Here) -> Finding | None:
    """Why there is no GPU to be looked at; None where the driver's control device is there."""
    why = why_absent(here.env, here.dev)
    return skipped(why) if why else None


def why_absent(env: Mapping[str, str], dev: str) -> str:
    """The same as a text, empty where there may be one."""
    if env.get("NVIDIA_VISIBLE_DEVICES") == "void":
        return "the container has no GPU: NVIDIA_VISIBLE_DEVICES=void"
    control = os.path.join(dev, "nvidiactl")
    return "" if os.path.exists(control) else f"there is no {control}"
