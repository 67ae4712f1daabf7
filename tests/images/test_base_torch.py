"""A base that already holds torch: the harness comes on top, and torch is not installed again."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from engine import FULL, IMAGE, docker

FACTS = {"torch": "2.13.0+cu130", "python": "3.12.4", "cuda": "13.0"}
PREFIX = """
FROM muster-base:debootstrap
COPY --from={image} /opt/venv /opt/conda
# A venv's own paths: python and its packages now lie below another prefix, as in an image with conda.
RUN rm -rf /opt/conda/lib/python3.11/site-packages/muster* /opt/conda/lib/python3.11/site-packages/boto3* && \
    sed -i 's,/opt/venv,/opt/conda,g' /opt/conda/bin/pip /opt/conda/bin/torchrun
ENV PATH=/opt/conda/bin:$PATH
"""
SCRIPT = """
import os, sys
import boto3, numpy, torch, muster.training
import torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
print("torch", torch.__version__, os.path.dirname(torch.__file__), int(one), sys.prefix, flush=True)
dist.destroy_process_group()
import time; time.sleep(0.1)
"""
LOADED = """
import ctypes, re, torch
ctypes.CDLL("libnccl.so.2")
print({*re.findall(r"/\\S*libnccl.so\\S*", open("/proc/self/maps").read())})
"""


@pytest.fixture
def make_venv(root, monkeypatch):
    """The step of the images' build that makes /opt/venv."""
    monkeypatch.setattr(sys, "path", [str(root / "images/base"), *sys.path])
    return importlib.import_module("make_venv")


def test_the_tag_has_to_tell_the_truth(make_venv):
    """Torch, CUDA or Python other than the tag says: the build ends, and says what to set."""
    make_venv.check_tag(FACTS, "2.13.0-cu130-py312", "cu130")
    make_venv.check_tag({**FACTS, "torch": "2.13.0+cpu", "cuda": None}, "2.13.0-cpu-py312", "cpu")
    for tag in ("2.12.1-cu130-py312", "2.13.0-cu131-py312", "2.13.0-cu130-py311"):
        with pytest.raises(make_venv.BuildError, match=r"MUSTER_VERSION_TAG=2\.13\.0-cu130-py312"):
            make_venv.check_tag(FACTS, tag, "cu130")


@pytest.mark.parametrize(
    ("cuda", "flavour", "fits"),
    [
        ("13.0", "cu126", False),
        ("12.8", "cu130", False),
        (None, "cu130", False),
        ("13.0", "cpu", False),
        ("12.8", "cu126", True),
    ],
)
def test_a_cells_device_has_to_be_the_torchs(make_venv, cuda, flavour, fits):
    """No GPU cell with a torch for processors, and none with another CUDA than its drivers run."""
    found = "cpu" if cuda is None else "cu" + cuda.replace(".", "")
    facts, tag = {**FACTS, "cuda": cuda}, f"2.13.0-{found}-py312"
    if fits:
        make_venv.check_tag(facts, tag, flavour)
        return
    with pytest.raises(make_venv.BuildError, match=f"this cell is for {flavour}"):
        make_venv.check_tag(facts, tag, flavour)


def test_another_python_is_told_before_anything_is_fetched(make_venv):
    """Pip's own words would be that there is no such torch."""
    with pytest.raises(make_venv.BuildError, match=r"set MUSTER_VERSION_TAG=2\.13\.0-cpu-py3"):
        make_venv.check_python("2.13.0-cpu-py399")


@pytest.fixture
def built():
    """A function that makes an image from a Dockerfile's text. They go with the test."""
    names = []

    def build(text: str) -> str:
        names.append(f"muster-test/base:{uuid.uuid4().hex[:12]}")
        command = ["docker", "build", "-q", "-t", names[-1], "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return names[-1]

    yield build
    for name in names:
        docker("rmi", "-f", name, check=False)


def build_on(root: Path, cell: str, base: str, suffix: str, **variables: str):
    """Run scripts/images for a cell on a base."""
    command = [root / "scripts/images", "build", cell, f"--base={base}", f"--tag-suffix={suffix}"]
    env = {**os.environ, "MUSTER_BUILD_NETWORK": "host", **variables}
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=580, check=False
    )


@pytest.mark.docker
def test_a_base_without_apt_is_refused(root, built):
    """One line says what is missing, before anything is fetched."""
    base = built("FROM muster-base:debootstrap\nRUN rm /usr/bin/apt-get\n")
    done = build_on(root, "ddp-cpu", base, "-noapt")
    assert done.returncode == 1
    assert f"the base {base} has no apt-get: take a Debian or Ubuntu" in done.stderr


@pytest.mark.docker
def test_torch_in_another_prefix_is_taken(root, built, tmp_path):
    """As in pytorch/pytorch: /opt/venv leads to the base's torch, gets what is missing, and both ranks use it."""
    base = built(PREFIX.format(image=IMAGE))
    image = "muster/ddp:cpu-prefix"
    try:
        done = build_on(root, "ddp-cpu", base, "-prefix")
        assert done.returncode == 0, done.stderr[-3000:]
        assert "it stays as it is" in done.stderr
        (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
        words = (
            "--rm",
            "--network",
            "none",
            "-v",
            f"{tmp_path}:/opt/ml/code",
            "-e",
            "MUSTER_NPROC=2",
        )
        ran = docker("run", *words, image, "train", "train.py")
        place = "/opt/conda/lib/python3.11/site-packages/torch"
        assert f"torch 2.13.0+cpu {place} 2 /opt/venv" in ran.stdout, ran.stdout + ran.stderr
        held = docker("run", "--rm", "--entrypoint", "cat", image, "/opt/muster/manifest.json")
        assert json.loads(held.stdout)["versions"]["torch"] == "2.13.0+cpu"
        listed = docker(
            "run", "--rm", "--entrypoint", "ls", image, "/opt/venv/lib/python3.11/site-packages"
        )
        assert "boto3" in listed.stdout.split()
        assert "torch" not in listed.stdout.split()
    finally:
        docker("rmi", image, "muster/ddp:2.13.0-cpu-py311-prefix", check=False)


@pytest.mark.docker
@pytest.mark.skipif(not FULL, reason="it builds two images of 5 GB: make test-full")
@pytest.mark.timeout(900)
def test_torch_of_debian_13s_python_is_taken(root, digits, bake_args):
    """Another release, Python 3.13, and torch's CUDA build in dist-packages: not a second torch, and one NCCL."""
    sys.path.insert(0, str(root / "scripts"))
    images, base_image = (
        importlib.import_module(f"tooling.{name}") for name in ("images", "base_image")
    )
    pins = bake_args("ddp-gpu")
    base, tag = "muster-test/base-with-torch:latest", "2.13.0-cu130-py313"
    base_image.make("trixie")
    file = Path("tests/images/base_with_torch/docker-bake.hcl")
    env = {name: pins[name] for name in ("TORCH_VERSION", "PIP_VERSION")}
    images.bake(["base-with-torch"], file, env, "host")
    image = f"muster/ddp:{tag}-noefa-trixie"
    try:
        options = {"MUSTER_EFA": "no", "MUSTER_VERSION_TAG": tag}
        done = build_on(root, "ddp-gpu", base, "-trixie", **options)
        assert done.returncode == 0, done.stderr[-3000:]
        form = ("image", "inspect", "--format", "{{.Size}}")
        assert int(docker(*form, image).stdout) - int(docker(*form, base).stdout) < 0.5e9
        assert docker("run", "--rm", image, check=False).returncode == 75
        mounts = (f"-v{root}/examples:/opt/ml/code", f"-v{digits}:/opt/ml/input/data/training")
        given = ("-eMUSTER_ALLOW_CPU=1", "-eMUSTER_NPROC=2")
        words = ("--rm", "--network=none", *mounts, *given)
        ran = docker("run", *words, image, "train", "digits_ddp.py", "--epochs", "3")
        assert "test_accuracy=0." in ran.stdout, ran.stdout + ran.stderr
        found = docker("run", "--rm", "--entrypoint", "python", image, "-c", LOADED).stdout.strip()
        assert found == "{'/usr/local/lib/python3.13/dist-packages/nvidia/nccl/lib/libnccl.so.2'}"
    finally:
        docker("rmi", image, check=False)
        docker("rmi", base, check=False)
