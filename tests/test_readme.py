"""What the README tells users to type, typed."""

from __future__ import annotations

import re
import subprocess

import pytest
import readme
from engine import docker

# `make test` is what runs this test. `make images` has run before it, and runs once more here,
# when there is nothing left to build.
# What needs an AWS account is run against a stand-in by tests/sdk/test_first_job.py.
COMMANDS = [
    block.strip()
    for block in readme.blocks("bash")
    if block.strip() != "make test" and block not in readme.aws_blocks()
]
EXPECTED = {
    "make run": r"^test_accuracy=0\.9[5-9]",
    "make images": r"muster/ddp:cpu",
    ".venv/bin/muster local examples/digits_ddp.py --hosts": r"^test_accuracy=0\.[89]",
    ".venv/bin/muster local examples/digits_ddp.py --backend docker": r"^test_accuracy=0\.[89]",
    ".venv/bin/muster plan": r"runs: .*torchrun --nnodes=1",
    "docker run --rm --shm-size=1g": r"^test_accuracy=0\.9[5-9]",
    "docker build -f examples/extend/Dockerfile": r"naming to docker.io/library/my-training",
    "docker run --rm muster/ddp:cpu torchrun --help": r"--nproc-per-node",
}


def _marked(command: str):
    docker = "docker" in command or "images" in command
    return pytest.param(command, marks=[pytest.mark.docker] if docker else [], id=command[:30])


@pytest.fixture(scope="module", autouse=True)
def data(root):
    """`make run` comes first in the README, and makes the data that later commands use."""
    subprocess.run(["make", "build/digits/digits.npz"], cwd=root, check=True, capture_output=True)


@pytest.mark.parametrize("command", [_marked(command) for command in COMMANDS])
def test_a_command_of_the_readme_does_what_it_says(command, root):
    """Each shell block of the README runs as it stands, from the checkout, and succeeds."""
    (expected,) = [text for start, text in EXPECTED.items() if command.startswith(start)]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert re.search(expected, said, re.MULTILINE), said


def test_the_first_commands_are_the_two():
    """A newcomer meets `make run` and `make test` before anything else."""
    assert [block.strip() for block in readme.blocks("bash")][:2] == ["make run", "make test"]


@pytest.mark.docker
def test_an_image_of_ones_own_trains(root, digits, tmp_path):
    """examples/extend/Dockerfile gives an image that trains its own code, and keeps the rest."""
    tag = "muster-test/extended:latest"
    docker("build", "-q", "-f", f"{root}/examples/extend/Dockerfile", "-t", tag, f"{root}/examples")
    try:
        words = ["run", "--rm", "--network", "none", "-v", f"{digits}:/opt/ml/input/data/training"]
        done = docker(*words, "-v", f"{tmp_path}:/opt/ml/model", tag, "train", "--epochs", "3")
        assert re.search(r"^test_accuracy=0\.[89]", done.stdout, re.MULTILINE), done.stdout
        assert (tmp_path / "model.pt").exists()
    finally:
        docker("rmi", tag, check=False)
