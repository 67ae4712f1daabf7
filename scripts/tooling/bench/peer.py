"""The image with AWS's own toolkit, built on muster's: the same Python, torch and script."""

from __future__ import annotations

import re
from pathlib import Path

from tooling import base_image, images
from tooling.machine import ask

NAME = "muster-bench/peer:cpu"
FOLDER = Path(__file__).parent / "peer"
BAKE_FILE = FOLDER / "docker-bake.hcl"
BASE_LABEL = '{{index .Config.Labels "org.opencontainers.image.base.name"}}'


def pins() -> dict[str, str]:
    """Return the toolkit's packages and their versions. Effects: reads requirements.txt."""
    text = (FOLDER / "requirements.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w-]+)==(\S+)$", text, re.MULTILINE))


def build(image: str) -> None:
    """Build the peer's image. Raises ScriptError. Effects: an image and build cache in the engine; package indexes."""
    base = ask("docker", "image", "inspect", "--format", BASE_LABEL, image) or ""
    stand_in = base.startswith(f"{base_image.NAME}:")
    env = {"MUSTER_BENCH_IMAGE": image, "MUSTER_BENCH_PEER": NAME}
    images.bake(["peer"], BAKE_FILE, env, images.network(no_registry=stand_in))
