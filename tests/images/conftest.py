from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from engine import IMAGE, SLIM_IMAGE, docker, has_image

ROOT = Path(__file__).resolve().parents[2]
# The scripts are no package that is installed; their parts are tested where they lie.
sys.path.insert(0, str(ROOT / "scripts"))

STAND_IN = "muster-base:"
BAKE_VARIABLES = ("REGISTRY", "PINS", "CELLS", "TITLES")


def inspect(image: str) -> dict:
    """What the engine says of an image."""
    return json.loads(docker("image", "inspect", image).stdout)[0]


@pytest.fixture(scope="session", params=["default", "slim"])
def image(request) -> str:
    """The CPU image on each base that is tested here."""
    if request.param == "default":
        return IMAGE
    base = inspect(IMAGE)["Config"]["Labels"].get("org.opencontainers.image.base.name", "")
    if not base.startswith(STAND_IN):
        pytest.skip(f"{IMAGE} is built on {base} itself: no look-alike of it is needed")
    if not has_image(SLIM_IMAGE):
        command = "scripts/images build --look-alike cpu"
        pytest.fail(f"the image {SLIM_IMAGE} is missing: run `{command}`", pytrace=False)
    return SLIM_IMAGE


@pytest.fixture(scope="session")
def inspected(image) -> dict:
    """What the engine says of the image under test."""
    return inspect(image)


@pytest.fixture(scope="session")
def facts(image) -> dict:
    """What a script inside the image finds there: see inside/facts.py."""
    inside = Path(__file__).parent / "inside"
    mount = f"type=bind,source={inside},target=/inside,readonly"
    command = ("--mount", mount, "--entrypoint", "python", image, "-B", "/inside/facts.py")
    return json.loads(docker("run", "--rm", "--network", "none", *command).stdout)


@pytest.fixture(scope="session")
def plain_environment() -> dict[str, str]:
    """This environment without the variables that bake reads, and without an engine."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in BAKE_VARIABLES and not name.startswith(("MUSTER_", "BUILDX_"))
    }
    return {**kept, "DOCKER_HOST": "unix:///nowhere.sock"}
