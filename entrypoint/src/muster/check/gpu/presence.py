"""Whether this host has a GPU at all. Effects: looks for a file.

Apart from the rest, which CPU jobs never import.
"""

from __future__ import annotations

import os

from muster.check.finding import Finding, Here, skipped


def absence(here: Here) -> Finding | None:
    """Why there is no GPU to be looked at; None where the driver's control device is there."""
    if here.env.get("NVIDIA_VISIBLE_DEVICES") == "void":
        return skipped("the container has no GPU: NVIDIA_VISIBLE_DEVICES=void")
    control = os.path.join(here.dev, "nvidiactl")
    return None if os.path.exists(control) else skipped(f"there is no {control}")
