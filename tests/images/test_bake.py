from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SNAPSHOTS = Path(__file__).parent / "snapshots"
GROUPS = ("default", "cpu", "dev", "gpu", "all")


def bake(root: Path, env: dict[str, str], *targets: str) -> dict:
    """Bake's plan, with what newer versions print in another form made one."""
    done = subprocess.run(
        ["docker", "buildx", "bake", "--print", *targets],
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    for target in plan["target"].values():
        if "output" in target:
            target["output"] = [
                one if isinstance(one, str) else f"type={one['type']}" for one in target["output"]
            ]
    return plan


@pytest.fixture(scope="module")
def buildx() -> None:
    """Buildx is there; no engine is needed."""
    if shutil.which("docker") is None:
        pytest.skip("no docker command: run scripts/engine")
    if subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False).returncode:
        pytest.skip("no docker buildx: run scripts/engine")


@pytest.mark.usefixtures("buildx")
@pytest.mark.parametrize("group", GROUPS)
def test_plan_is_the_reviewed_one(root, plain_environment, group):
    """What a group builds changes only together with its snapshot (MUSTER_UPDATE_SNAPSHOTS=1 writes it).

    Bake drops attributes that it does not know without a word, so that only its own output shows a typing error.
    """
    plan = bake(root, plain_environment, group)
    path = SNAPSHOTS / f"{group}.json"
    if os.environ.get("MUSTER_UPDATE_SNAPSHOTS") == "1":
        path.write_text(json.dumps(plan, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    assert plan == json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.usefixtures("buildx")
def test_registry_and_suffix_make_the_tags(root, plain_environment):
    """A team's registry and a test's suffix reach every tag."""
    env = {**plain_environment, "REGISTRY": "example.com/team", "MUSTER_TAG_SUFFIX": "-x"}
    tags = bake(root, env, "ddp-cpu")["target"]["ddp-cpu"]["tags"]
    assert [tag.split(":")[0] for tag in tags] == ["example.com/team/ddp"] * 2
    assert all(tag.endswith("-x") for tag in tags)


@pytest.mark.usefixtures("buildx")
@pytest.mark.parametrize(
    ("asked", "label", "suffix"),
    [
        ({}, "1.50.0", ""),
        ({"MUSTER_EFA": "no"}, "none", "-noefa"),
        ({"MUSTER_EFA": "stand-in"}, "stand-in", "-efa-stand-in"),
    ],
)
def test_efa_is_told_by_label_and_tag(root, plain_environment, asked, label, suffix):
    """No image without the real EFA has the tag of one that has it; CPU images have none, and need no suffix."""
    env = {**plain_environment, **asked, "MUSTER_TAG_SUFFIX": "-x"}
    targets = bake(root, env, "all")["target"]
    assert targets["ddp-gpu"]["labels"]["muster.efa"] == label
    assert targets["efa-gpu"]["args"]["EFA"] == label
    assert all(tag.endswith(f"{suffix}-x") for tag in targets["ddp-gpu"]["tags"])
    assert targets["ddp-cpu"]["labels"]["muster.efa"] == "none"
    assert targets["ddp-cpu"]["tags"][0] == "muster/ddp:cpu-x"


@pytest.mark.usefixtures("buildx")
def test_a_base_with_its_own_torch_names_the_tag(root, plain_environment):
    """The version tag is then what the base brings, and the build is told to check it."""
    env = {**plain_environment, "MUSTER_VERSION_TAG": "2.12.1-cu128-py312"}
    target = bake(root, env, "ddp-gpu")["target"]["ddp-gpu"]
    assert target["tags"] == ["muster/ddp:2.12.1-cu128-py312"]


@pytest.mark.usefixtures("buildx")
def test_every_argument_is_declared(root, plain_environment):
    """Each argument of a cell is an ARG of its Dockerfile, so that no pin is lost by a typing error."""
    for name, target in bake(root, plain_environment, "all")["target"].items():
        declared = re.findall(
            r"^ARG (\w+)", (root / target["dockerfile"]).read_text(encoding="utf-8"), re.MULTILINE
        )
        assert set(target["args"]) <= set(declared), name


def test_versions_are_pinned_in_one_file(root):
    """Dockerfiles name no version but the default base's; docker-bake.hcl does."""
    for dockerfile in (root / "images").glob("*/Dockerfile"):
        text = dockerfile.read_text(encoding="utf-8").replace(
            "ARG BASE_IMAGE=python:3.11-slim-bookworm", ""
        )
        assert not re.findall(r"==\s*\d|\d+\.\d+\.\d+", text), dockerfile


def test_harness_version_is_the_images_version(root):
    """The label's version is the wheel's."""
    pyproject = (root / "entrypoint/pyproject.toml").read_text(encoding="utf-8")
    wheel = re.search(r'^version = "(.+)"', pyproject, re.MULTILINE)[1]
    bakefile = (root / "docker-bake.hcl").read_text(encoding="utf-8")
    assert re.search(r'"MUSTER_VERSION" { default = "(.+)" }', bakefile)[1] == wheel
