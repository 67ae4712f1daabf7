"""Where a run finds its programs. Effects: looks for one file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def with_own_venv(env: Mapping[str, str]) -> dict[str, str]:
    """`env`, with the harness's own folder of programs first on PATH if it has torchrun.

    So `.venv/bin/muster train` works in a venv that nobody has activated. In the images the
    harness's venv has no torch, and PATH leads to the user's.
    """
    beside = os.path.dirname(sys.executable)
    if not os.path.exists(os.path.join(beside, "torchrun")):
        return dict(env)
    return {**env, "PATH": os.pathsep.join([beside, env.get("PATH", os.defpath)])}
