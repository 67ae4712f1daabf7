"""What a job wants installed: torch that is replaced, files that are passed over, indexes, many installers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from wheels import Index, make_wheel

TORCH = "2.13.0+cpu"


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    for name, version in [("torch", TORCH), ("torch", "2.0.0"), ("small", "1.0")]:
        make_wheel(folder, name, version)
    make_wheel(folder, "needs-old", "1.0", requires=["torch==2.0.0"])
    return folder


@dataclass
class User:
    """The user's Python, which is not the harness's, and variables that lead to it."""

    venv: Path
    env: dict[str, str]

    def has(self, name: str) -> bool:
        return any(self.venv.glob(f"lib/python3*/site-packages/{name}-*.dist-info"))


@pytest.fixture
def user(tmp_path, packages) -> User:
    """A venv with a torch, and the list of an image that has it."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    torch = packages / f"torch-{TORCH}-py3-none-any.whl"
    env = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_DEFAULT_TIMEOUT": ""}
    pip = [venv / "bin/python", "-m", "pip", "install", "-qq", "--no-index", torch]
    subprocess.run(pip, check=True, env={**os.environ, **env})
    constraints = tmp_path / "constraints.txt"
    constraints.write_text(f"torch=={TORCH}\n", encoding="utf-8")
    env["MUSTER_CONSTRAINTS"] = str(constraints)
    env["MUSTER_PYTHON"] = str(venv / "bin/python")
    return User(venv, env)


@pytest.mark.parametrize("spec", ["torch==2.0.0", "needs-old"])
def test_case_031_another_torch(contract, user, packages, spec):
    """A torch that is not the image's fails before anything is replaced, with both versions, on
    line 1; the switch lets it in."""
    contract.hyperparameters()
    (contract.base / "code" / "requirements.txt").write_text(f"{spec}\n")
    with Index(packages) as index:
        env = user.env | {"PIP_INDEX_URL": index.url}
        ended = contract.run(env=env)
        assert ended.status == 72, ended.log
        first, second, *_ = ended.failure.splitlines()
        assert "torch==2.0.0" in first
        assert TORCH in first
        assert "constraints.txt" in first
        assert second.startswith("muster kind=requirements ")
        assert not user.has("needs_old")
        ended = contract.run(env=env | {"MUSTER_ALLOW_TORCH_CHANGE": "1"})
    assert ended.status == 0, ended.log
    assert f"torch {TORCH} -> 2.0.0" in ended.log


@pytest.mark.parametrize("entry", ["train.py", "train.sh", "train", "setup"])
def test_case_032_every_kind_of_entry_point(contract, user, packages, entry):
    """Python, shell and program alike, and beside a setup.py: the file is installed first."""
    code = contract.base / "code"
    name = "train.py" if entry == "setup" else entry
    if entry in ("train.sh", "train"):
        (code / name).write_text(
            f"#!/bin/sh\nls {user.venv}/lib/*/site-packages/small.py && echo HERE\n"
        )
        (code / name).chmod(0o755)
    else:
        contract.script("import small; print('HERE')", name)
    if entry == "setup":
        (code / "setup.py").write_text("1/0")
    (code / "requirements.txt").write_text("small\n")
    contract.hyperparameters(sagemaker_program=name)
    with Index(packages) as index:
        ended = contract.run(env=user.env | {"PIP_INDEX_URL": index.url})
    assert ended.status == 0, ended.log
    assert "requirements: 1 package in" in ended.log
    assert "HERE" in ended.log


def test_case_032_another_file_or_none(contract, user, packages):
    """A variable names another file, and another one switches the installation off."""
    contract.hyperparameters()
    (contract.base / "code" / "requirements.txt").write_text("nosuch\n")
    (contract.base / "code" / "gpu.txt").write_text("small\n")
    with Index(packages) as index:
        env = user.env | {"PIP_INDEX_URL": index.url}
        assert contract.run(env=env | {"MUSTER_REQUIREMENTS": "none"}).status == 0
        assert not user.has("small")
        assert contract.run(env=env | {"MUSTER_REQUIREMENTS": "gpu.txt"}).status == 0
    assert user.has("small")


def test_case_033_an_index_with_a_login(contract, user, packages):
    """A private index is used, and its password is in no line, failure file or record."""
    contract.hyperparameters()
    (contract.base / "code" / "requirements.txt").write_text("small\nnosuch\n")
    with Index(packages, "me:hunter2") as index:
        ended = contract.run(env=user.env | {"PIP_INDEX_URL": index.url})
        assert ended.status == 72, ended.log
        assert "nosuch" in ended.failure.splitlines()[0]
        (contract.base / "code" / "requirements.txt").write_text("small\n")
        log = ended.log + contract.run(env=user.env | {"PIP_INDEX_URL": index.url}).log
    assert user.has("small")
    kept = [p for p in (contract.base / "output").rglob("*") if p.is_file()]
    assert "requirements.log" in [path.name for path in kept]
    assert "hunter2" not in log + "".join(path.read_text(encoding="utf-8") for path in kept)


def test_case_033_no_way_out(contract, user):
    """Without an index the job fails within 30 s, and says what a job without a network does."""
    contract.hyperparameters()
    (contract.base / "code" / "requirements.txt").write_text("small\n")
    began = time.monotonic()
    ended = contract.run(env=user.env | {"PIP_INDEX_URL": "http://127.0.0.1:9/simple"})
    assert time.monotonic() - began < 30
    assert ended.status == 72
    assert "no way to the index 127.0.0.1:9" in ended.failure.splitlines()[0]
    assert "wheels/" in ended.failure


def test_case_033_wheels_in_the_code(contract, user):
    """With a folder wheels/ nothing is asked, whatever index is set."""
    contract.hyperparameters()
    make_wheel(contract.base / "code" / "wheels", "mine", "0.1")
    (contract.base / "code" / "requirements.txt").write_text("mine\n")
    ended = contract.run(env=user.env | {"PIP_INDEX_URL": "http://127.0.0.1:9/simple"})
    assert ended.status == 0, ended.log
    assert user.has("mine")


def test_case_034_a_python_of_the_system(contract, user, tmp_path):
    """Where the distribution keeps its Python to itself, pip is not even tried, and the way out is told."""
    contract.hyperparameters()
    (contract.base / "code" / "requirements.txt").write_text("small\n")
    answer = {"python": "3.11", "installed": {}, "pip": "23.0", "managed": True, "kept": {}}
    answer |= {"conflicts": [], "hashes": False, "empty": False, "lines": [], "config": {}}
    fake = tmp_path / "python3"
    # Called as the probe is: its file, and what it is asked, the answer's file among it.
    text = (
        f"import json, sys\njson.dump({answer!r}, open(json.loads(sys.argv[2])['answer'], 'w'))\n"
    )
    fake.write_text(f"#!{sys.executable}\n{text}")
    fake.chmod(0o755)
    ended = contract.run(env=user.env | {"MUSTER_PYTHON": str(fake)})
    assert ended.status == 72, ended.log
    assert "PEP 668" in ended.failure.splitlines()[0]
    assert "MUSTER_PYTHON" in ended.failure


def test_case_035_once_a_host_and_before_all_ranks(contract, user, packages):
    """Two hosts with one Python: one installation, and none of the ranks begins before both are done."""
    contract.script("import small, sys; print('RANK', small.__version__, file=sys.stderr)")
    shutil.copytree(packages, contract.base / "code" / "wheels")
    (contract.base / "code" / "requirements.txt").write_text("small\n")
    script = str(contract.base / "code" / "train.py")
    ended = contract.run("local", script, "--hosts", "2", env=user.env)
    assert ended.status == 0, ended.log
    assert ended.log.count("requirements: 1 package in") == 1
    assert ended.log.count("requirements: nothing new from requirements.txt") == 1
    assert ended.log.count("RANK 1.0") == 2
    assert ended.log.rindex("requirements: ") < ended.log.index("RANK 1.0")
