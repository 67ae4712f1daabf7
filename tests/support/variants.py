"""Images of tests: ours with something on top, as users make their own."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from engine import MPI_IMAGE

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def build(name: str, image: str = MPI_IMAGE) -> str:
    """The tag of the variant, built from the folder of that name on the given image."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        images = importlib.import_module("tooling.images")
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    file = HERE / name / "docker-bake.hcl"
    images.bake([name], Path(os.path.relpath(file)), {"IMAGE": image}, "host")
    return f"muster-test/{name}:latest"
