from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from engine import (
    DEV_IMAGE,
    FULL,
    GPU_CELLS,
    HOROVOD_IMAGE,
    IMAGE,
    MPI_IMAGE,
    SLIM_IMAGE,
    docker,
    gpu_image,
    has_image,
)

ROOT = Path(__file__).resolve().parents[2]
# The scripts are no package that is installed; their parts are tested where they lie.
sys.path.insert(0, str(ROOT / "scripts"))

STAND_IN = "muster-base:"
CPU_IMAGES = {
    "ddp-cpu": IMAGE,
    "slim": SLIM_IMAGE,
    "ddp-cpu-dev": DEV_IMAGE,
    "horovod-cpu": HOROVOD_IMAGE,
    "smddp-cpu": MPI_IMAGE,
}
BAKE_VARIABLES = ("REGISTRY", "PINS", "CELLS", "TITLES")


def inspect(image: str) -> dict:
    """What the engine says of an image."""
    return json.loads(docker("image", "inspect", image).stdout)[0]


@pytest.fixture(scope="session", params=[*CPU_IMAGES, *(GPU_CELLS if FULL else ())])
def cell(request) -> str:
    """The cell of docker-bake.hcl under test, or `slim`: ddp-cpu on the look-alike of the default base."""
    return request.param


@pytest.fixture(scope="session")
def image(cell) -> str:
    """The image of the cell."""
    if cell in GPU_CELLS:
        return gpu_image(cell)
    name = CPU_IMAGES[cell]
    base = inspect(IMAGE)["Config"]["Labels"].get("org.opencontainers.image.base.name", "")
    if cell == "slim" and not base.startswith(STAND_IN):
        pytest.skip(f"{IMAGE} is built on {base} itself: no look-alike of it is needed")
    if not has_image(name):
        pytest.fail(f"the image {name} is missing: run `make images-test`", pytrace=False)
    return name


@pytest.fixture(scope="session")
def bake_args(root, plain_environment) -> Callable[[str], dict[str, str]]:
    """A function that returns what docker-bake.hcl hands to the build of a cell."""

    def args(target: str) -> dict[str, str]:
        done = subprocess.run(
            ["docker", "buildx", "bake", "--print", target],
            cwd=root,
            env=plain_environment,
            capture_output=True,
            text=True,
            check=True,
        )
        plan = json.loads(done.stdout)["target"]
        contexts = [name.removeprefix("target:") for name in plan[target]["contexts"].values()]
        below = [
            plan[name]["args"] for name in contexts if name.startswith(("venv-", "torch-", "mpi-"))
        ]
        return {
            name: value for args in (*below, plan[target]["args"]) for name, value in args.items()
        }

    return args


@pytest.fixture(scope="session")
def pins(cell, bake_args) -> dict[str, str]:
    """Those of the cell under test."""
    return bake_args("ddp-cpu" if cell == "slim" else cell)


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
