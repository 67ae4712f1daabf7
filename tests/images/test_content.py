from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from engine import docker

pytestmark = pytest.mark.docker

PRESENT = (
    "train",
    "muster",
    "muster-rank",
    "muster-rsh",
    "torchrun",
    "python",
    "python3",
    "pip",
    # What ModelTrainer's own script calls, which replaces the entry point (docs/contract.md 5.1).
    "pip3",
    "bash",
    "tar",
    "gzip",
    "chmod",
    "cat",
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
    "ssh",
    "sshd",
    "ssh-keygen",
)
BENCHMARKS = (
    "all_reduce_perf",
    "all_gather_perf",
    "reduce_scatter_perf",
    "alltoall_perf",
    "broadcast_perf",
    "reduce_perf",
    "gather_perf",
    "scatter_perf",
    "sendrecv_perf",
)
LAUNCHERS = {"ddp": "torchrun", "slim": "torchrun", "horovod": "horovodrun", "smddp": "mpirun"}
# Debian keeps the wheels of its ensurepip here, CPython its own.
ENSUREPIP = ("/usr/share/python-wheels/", "/ensurepip/_bundled/")


COMPILERS = {"": set(), "gcc": {"gcc", "ld", "as"}, "g++": {"gcc", "ld", "as", "g++", "c++", "cc"}}


def test_size_is_within_the_budget(image, inspected):
    """The image is no larger than docker-bake.hcl allows; else the message names its layers."""
    allowed = float(inspected["Config"]["Labels"]["muster.budget"].removesuffix(" GB")) * 1e9
    form = "{{.Size}} {{.CreatedBy}}"
    layers = docker("history", "--no-trunc", "--human=false", "--format", form, image).stdout
    named = [line[:150] for line in layers.splitlines() if not line.startswith("0 ")]
    assert inspected["Size"] <= allowed, "\n".join(named)


def test_readme_tells_the_size(root, cell, inspected):
    """What the README says comes from a build, and is still true; bases differ by less than 0.05 GB."""
    name = "ddp-cpu" if cell == "slim" else cell
    page = (root / "images" / name.partition("-")[0] / "README.md").read_text(encoding="utf-8")
    told = re.search(rf"^\| `{name}` \| ([\d.]+) GB \|", page, re.MULTILINE)[1]
    assert abs(inspected["Size"] / 1e9 - float(told)) < 0.05, "run `scripts/images sizes`"


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


MPI = ("horovod", "smddp")
BY_HAND = """
    test -x /bin/bash
    python3 -c 'import torch; assert torch.ones(2).sum() == 2'
    python3 -c 'from muster.training.mesh import read_mesh; read_mesh({})'
    torchrun --help
    pip3 --version
"""
BY_HAND_MPI = """
    mpirun --version
    # Two ranks of this host, as root: no option says that it may, and no agent is called.
    test "$(mpirun -np 2 --oversubscribe --bind-to none echo rank | grep -c rank)" = 2
"""


def test_another_entry_point_finds_everything(image, cell):
    """Under ModelTrainer bash takes the entry point's place: what torch, torchrun and mpirun need is in
    the image's variables and files, not in what muster sets."""
    script = BY_HAND + (BY_HAND_MPI if cell.partition("-")[0] in MPI else "")
    words = ("--entrypoint", "/bin/bash", image, "-euo", "pipefail", "-c", script)
    said = docker("run", "--rm", "--network", "none", *words).stdout
    assert "usage: torchrun" in said
    assert ("Open MPI" in said) == (cell.partition("-")[0] in MPI)


def test_benchmarks_are_on_path(facts, image):
    """Every collective's benchmark is a command of the user's venv, which has torch, and measures with one process."""
    assert {name: facts["commands"][name] for name in BENCHMARKS} == {
        name: f"/opt/venv/bin/{name}" for name in BENCHMARKS
    }
    words = ("--network", "none", image, "all_reduce_perf", "-b", "1K", "-e", "1K", "-n", "1")
    # A GPU image has no GPU here: torch measures over gloo then.
    said = docker("run", "--rm", *words).stdout
    assert "# Out of bounds values : 0 OK" in said


def test_no_build_tools(facts, pins):
    """No compiler that the cell doesn't ask for, no make and no SSH server: the image runs jobs."""
    present = {name for name in ABSENT if facts["commands"][name]}
    assert present - {"cc"} == COMPILERS[pins["COMPILER"]] - {"cc"}


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
    assert set(facts["harness"]) >= {"muster", "boto3", "nvidia-ml-py", "PyYAML"}
    assert not {"pip", "setuptools", "torch", "numpy"} & set(facts["harness"])


def test_user_can_import_what_the_guides_promise(facts):
    """torch, numpy, boto3, pip and muster's helpers are in the user's venv, and their dependencies fit."""
    assert set(facts["user"]) >= {"torch", "numpy", "boto3", "pip", "muster", "muster-perf"}
    assert facts["pip_check"] == ""


def test_configuration(inspected, cell):
    """The image starts the harness as root, and sets no variable that tunes a library."""
    config = inspected["Config"]
    assert config["Entrypoint"] == ["muster"]
    assert config["Cmd"] == ["train"]
    assert config["StopSignal"] == "SIGTERM"
    assert not config.get("User")
    assert not config.get("Volumes")
    assert not config.get("ExposedPorts")
    names = {line.split("=")[0] for line in config["Env"]}
    launcher = LAUNCHERS[cell.partition("-")[0]]
    assert f"MUSTER_DEFAULT_LAUNCHER={launcher}" in config["Env"]
    assert not [
        name for name in names if name.startswith(("NCCL_", "OMP_", "FI_", "TORCH_", "PYTHONPATH"))
    ]


def test_records_agree_with_the_pins(facts, inspected, pins):
    """docker-bake.hcl, the venv, the constraints file, the manifest and the labels name the same versions."""
    pinned = {name: pins[f"{name.upper()}_VERSION"] for name in ("torch", "numpy", "boto3", "pip")}
    versions = facts["manifest"]["versions"]
    assert {name: versions[name] for name in pinned} == pinned
    assert facts["manifest"]["device"] == pins["DEVICE"]
    assert inspected["Config"]["Labels"]["muster.device"] == pins["DEVICE"]
    assert facts["user"] == {
        name: version for name, version in versions.items() if name != "python"
    }
    assert facts["manifest"]["harness"] == facts["harness"]
    ours = {"muster", "muster-perf", "pip", "setuptools"}
    constrained = {name: v for name, v in facts["user"].items() if name not in ours}
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
    """The harness and the benchmark in the image are the checkout's: else every other test speaks of other ones."""
    assert_same(root / "entrypoint/src/muster", "/opt/muster/lib/python3.*/site-packages", image)
    assert_same(root / "nccl-tests/src/muster_perf", "/opt/venv/lib/python3.*/site-packages", image)


def assert_same(source: Path, packages: str, image: str) -> None:
    """The package's files are the same here and in the image."""
    here = {
        str(path.relative_to(source)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in source.rglob("*.py")
    }
    find = f"cd {packages}/{source.name}; find . -name '*.py' -exec sha256sum {{}} +"
    listed = docker("run", "--rm", "--entrypoint", "bash", image, "-c", find).stdout
    inside = {line.split("  ./")[1]: line.split()[0] for line in listed.splitlines()}
    assert inside == here, "run `make images`"
