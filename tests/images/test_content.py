from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest
from engine import docker

pytestmark = pytest.mark.docker

PRESENT = (
    "train",
    "muster",
    "muster-rank",
    "torchrun",
    "python",
    "python3",
    "pip",
    "bash",
    "tar",
    "gzip",
)
ABSENT = (
    "gcc",
    "g++",
    "cc",
    "c++",
    "clang",
    "ld",
    "as",
    "make",
    "cmake",
    "ninja",
    "sshd",
    "ssh-keygen",
)
# Debian keeps the wheels of its ensurepip here, CPython its own.
ENSUREPIP = ("/usr/share/python-wheels/", "/ensurepip/_bundled/")


def budget(root: Path, cell: str) -> float:
    """The size that the image's README promises, in bytes."""
    readme = (root / "images" / cell.split("-", maxsplit=1)[0] / "README.md").read_text(
        encoding="utf-8"
    )
    return float(re.search(rf"`{cell}`: at most ([\d.]+) GB", readme)[1]) * 1e9


def test_size_is_within_the_budget(root, inspected):
    """The image is no larger than its README says."""
    assert inspected["Size"] <= budget(root, "ddp-cpu")


def test_commands_are_on_path(facts):
    """What a job, a user or SageMaker calls is there."""
    assert {name: facts["commands"][name] for name in PRESENT if not facts["commands"][name]} == {}


def test_users_python_comes_first(facts):
    """python, pip and torchrun are the user's venv's; muster's commands are the image's own, isolated ones."""
    assert {facts["commands"][name] for name in ("python", "python3", "pip", "torchrun")} == {
        f"/opt/venv/bin/{name}" for name in ("python", "python3", "pip", "torchrun")
    }
    assert {facts["commands"][name] for name in ("train", "muster", "muster-rank")} == {
        f"/usr/local/bin/{name}" for name in ("train", "muster", "muster-rank")
    }


def test_no_build_tools(facts):
    """No compiler, no linker, no make and no SSH server: the image runs jobs."""
    assert {name: path for name in ABSENT if (path := facts["commands"][name])} == {}


def test_no_leftovers_of_the_build(facts):
    """No pip cache, apt list, package archive or wheel, and no mount point of a secret."""
    leftovers = [
        path
        for path in facts["files"]
        if path.startswith(
            ("/root/.cache", "/var/lib/apt/lists/", "/var/cache/apt/", "/tmp/", "/mnt/")
        )
        or (path.endswith((".deb", ".whl")) and not any(part in path for part in ENSUREPIP))
        or path in {"/etc/pip.conf", "/root/.config/pip/pip.conf"}
    ]
    assert leftovers == []
    assert facts["folders"] == []
    assert facts["mounted"] == []


def test_harness_is_apart(facts):
    """The harness's venv has what it needs, and no pip to change it with."""
    assert set(facts["harness"]) >= {"muster", "boto3", "nvidia-ml-py"}
    assert not {"pip", "setuptools", "torch", "numpy"} & set(facts["harness"])


def test_user_can_import_what_the_guides_promise(facts):
    """torch, numpy, boto3, pip and muster's helpers are in the user's venv, and their dependencies fit."""
    assert set(facts["user"]) >= {"torch", "numpy", "boto3", "pip", "muster"}
    assert facts["pip_check"] == ""


def test_configuration(inspected):
    """The image starts the harness as root, and sets no variable that tunes a library."""
    config = inspected["Config"]
    assert config["Entrypoint"] == ["muster"]
    assert config["Cmd"] == ["train"]
    assert config["StopSignal"] == "SIGTERM"
    assert not config.get("User")
    assert not config.get("Volumes")
    assert not config.get("ExposedPorts")
    names = {line.split("=")[0] for line in config["Env"]}
    assert "MUSTER_DEFAULT_LAUNCHER=torchrun" in config["Env"]
    assert not [
        name for name in names if name.startswith(("NCCL_", "OMP_", "FI_", "TORCH_", "PYTHONPATH"))
    ]


def test_records_agree_with_the_pins(root, facts, inspected, plain_environment):
    """docker-bake.hcl, the venv, the constraints file, the manifest and the labels name the same versions."""
    command = ["docker", "buildx", "bake", "--print", "ddp-cpu"]
    done = subprocess.run(
        command, cwd=root, env=plain_environment, capture_output=True, text=True, check=True
    )
    args = json.loads(done.stdout)["target"]["ddp-cpu"]["args"]
    pins = {name: args[f"{name.upper()}_VERSION"] for name in ("torch", "numpy", "boto3", "pip")}
    versions = facts["manifest"]["versions"]
    assert {name: versions[name] for name in pins} == pins
    assert facts["user"] == {
        name: version for name, version in versions.items() if name != "python"
    }
    assert facts["manifest"]["harness"] == facts["harness"]
    constrained = {
        name: v for name, v in facts["user"].items() if name not in {"muster", "pip", "setuptools"}
    }
    assert facts["constraints"] == [
        f"{name}=={constrained[name]}" for name in sorted(constrained, key=str.lower)
    ]
    assert inspected["Config"]["Labels"]["org.opencontainers.image.version"] == versions["muster"]


def test_constraints_keep_what_is_there(image):
    """Pip takes the constraints file, and is satisfied with the image's own torch."""
    command = (
        "pip",
        "install",
        "--no-index",
        "-c",
        "/opt/muster/constraints.txt",
        "torch",
        "numpy",
        "boto3",
    )
    done = docker(
        "run", "--rm", "--network", "none", "--entrypoint", command[0], image, *command[1:]
    )
    assert "would install" not in done.stdout.lower()
    assert "Requirement already satisfied: torch" in done.stdout


def test_users_files_do_not_shadow_the_harness(image):
    """A queue.py or json.py beside the user's script, or on PYTHONPATH, stays the user's own business."""
    script = "cd /tmp; for m in queue json socket; do echo 'raise SystemExit(9)' > $m.py; done; muster --version"
    done = docker(
        "run", "--rm", "-e", "PYTHONPATH=/tmp", "--entrypoint", "bash", image, "-c", script
    )
    assert done.stdout.startswith("muster ")


def test_image_holds_this_tree(root, image):
    """The harness in the image is the checkout's: else every other test speaks of another one."""
    source = root / "entrypoint/src/muster"
    here = {
        str(path.relative_to(source)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in source.rglob("*.py")
    }
    find = "cd /opt/muster/lib/python3.*/site-packages/muster; find . -name '*.py' -exec sha256sum {} +"
    listed = docker("run", "--rm", "--entrypoint", "bash", image, "-c", find).stdout
    inside = {line.split("  ./")[1]: line.split()[0] for line in listed.splitlines()}
    assert inside == here, "run `make images`"
