"""Talking to the Docker engine in tests: the command line, nothing else."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

import pytest

IMAGE = os.environ.get("MUSTER_TEST_IMAGE", "muster/ddp:cpu")
SLIM_IMAGE = os.environ.get("MUSTER_TEST_SLIM_IMAGE", "muster/ddp:cpu-slim")
DEV_IMAGE = os.environ.get("MUSTER_TEST_DEV_IMAGE", "muster/ddp:cpu-dev")
MPI_IMAGE = os.environ.get("MUSTER_TEST_MPI_IMAGE", "muster/smddp:cpu")
HOROVOD_IMAGE = os.environ.get("MUSTER_TEST_HOROVOD_IMAGE", "muster/horovod:cpu")
GPU_CELLS = ("ddp-gpu", "ddp-gpu-cu126", "horovod-gpu")
FULL = os.environ.get("MUSTER_TEST_FULL") == "1"


def docker(
    *words: str, timeout: float = 120, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Runs `docker WORDS` to its end; output is text. A failure shows what Docker said."""
    done = subprocess.run(
        ["docker", *words],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )
    if check and done.returncode:
        message = f"docker {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}"
        raise AssertionError(message)
    return done


@functools.cache
def missing_engine() -> str:
    """Why no engine can be used here; empty when one answers."""
    if shutil.which("docker") is None:
        return "no docker command"
    done = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else "no Docker engine answers"


@functools.cache
def has_image(name: str) -> bool:
    return docker("image", "inspect", name, check=False).returncode == 0


def bridge(network: str = "bridge") -> str:
    """This machine's address in a network of the engine's."""
    form = "{{(index .IPAM.Config 0).Gateway}}"
    return docker("network", "inspect", network, "--format", form).stdout.strip()


def gpu_image(cell: str) -> str:
    """The image of a GPU cell, with EFA, with a stand-in of it, or without. Skips the test where none was built.

    CI builds none: three images of 6 GB. `make test-full` does.
    """
    image, _, stack = cell.partition("-")
    tag = f"muster/{image}:{stack}"
    for name in (tag, f"{tag}-efa-stand-in", f"{tag}-noefa"):
        if has_image(name):
            return name
    if FULL:
        pytest.fail(f"no image of {cell}: run `make images-gpu`", pytrace=False)
    return pytest.skip(
        f"no image of {cell}: `make images-gpu` builds it, `make test-full` does, too"
    )
