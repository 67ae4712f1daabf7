"""The README's way to a first job on SageMaker, where there is no AWS."""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
import subprocess
from pathlib import Path

import opt_ml
import pytest
import readme
from venvs import venv_python

HERE = Path(__file__).parent
REGISTRY = "111111111111.dkr.ecr.us-east-1.amazonaws.com"

AWS = """
case "$1 $2" in
  "sts get-caller-identity") echo 111111111111 ;;
  "ecr get-login-password") echo hunter2 ;;
  "iam get-role") echo arn:aws:iam::111111111111:role/muster-training ;;
esac
for word in "$@"; do
  case "$word" in file://*) test -f "${word#file://}" ;; esac
done
"""
# What bake would build and push, without doing it.
DOCKER = """
if [ "$1" = login ]; then exec cat > /dev/null; fi
exec "$REAL_DOCKER" "$@" --print > "$RECORDS/bake.json"
"""
PYTHON = 'exec "$SDK_PYTHON" "$FIRST_JOB" "$RECORDS/request.json" "$@"'


@pytest.fixture
def stand_ins(tmp_path):
    """Variables for a shell in which aws, docker, pip and python only record what they are told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in {"aws": AWS, "docker": DOCKER, "python": PYTHON, "pip": ""}.items():
        path = folder / name
        record = f'echo "{name} $*" >> "$RECORDS/commands"'
        path.write_text(f"#!/bin/bash\nset -eu\n{record}\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("no docker command: run scripts/engine")
    return {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "RECORDS": str(tmp_path),
        "REAL_DOCKER": docker,
        "SDK_PYTHON": str(venv_python(HERE / "sdk-v2.txt")),
        "FIRST_JOB": str(HERE / "scripts" / "first_job.py"),
    }


def test_the_way_to_a_first_job(stand_ins, sdk_env, replay, tmp_path, root, digits):
    """The README's commands make the repository, log in, push the image there, make the role, and
    start a job of that image and role, which trains the digits on both hosts."""
    commands = "\n".join(readme.aws_blocks()).replace(
        "first_job.py", f"first_job.py --data {digits}"
    )
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=root,
        env=sdk_env | stand_ins,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = (tmp_path / "commands").read_text(encoding="utf-8").splitlines()
    assert f"docker login --username AWS --password-stdin {REGISTRY}" in said
    pushed = json.loads((tmp_path / "bake.json").read_text(encoding="utf-8"))["target"]["ddp-cpu"]
    assert f"{REGISTRY}/muster/ddp:cpu" in pushed["tags"]
    assert "type=registry" in json.dumps(pushed["output"]) or "push" in json.dumps(pushed["output"])
    created = next(line.split()[-1] for line in said if "create-repository" in line)
    assert f"{REGISTRY}/{created}:cpu" in pushed["tags"]

    job = json.loads((tmp_path / "request.json").read_text(encoding="utf-8"))
    assert job["AlgorithmSpecification"]["TrainingImage"] == f"{REGISTRY}/muster/ddp:cpu"
    assert job["RoleArn"] == "arn:aws:iam::111111111111:role/muster-training"
    assert opt_ml.hosts_of(job) == ["algo-1", "algo-2"]
    # The SDK has packed and uploaded the code: on the job's hosts it is an archive on S3.
    address = job["HyperParameters"]["sagemaker_submit_directory"]
    assert address.startswith('"s3://')
    assert address.endswith('/source/sourcedir.tar.gz"')
    replayed = replay(job, "algo-2")
    shutil.copy(root / "examples" / "digits_ddp.py", replayed.code)
    assert replayed.plan["launcher"] == "torchrun"
    assert replayed.plan["node_rank"] == 1
    assert replayed.plan["argv"][-3:] == [f"{replayed.code}/digits_ddp.py", "--epochs", "12"]


def test_the_role_may_do_what_the_job_needs(root):
    """The policy covers the image's repository and the SDK's bucket, and no action has a wildcard."""
    folder = root / "examples" / "sagemaker"
    policy = json.loads((folder / "role-policy.json").read_text(encoding="utf-8"))
    actions: dict[str, str] = {}
    for statement in policy["Statement"]:
        assert statement["Effect"] == "Allow"
        named = statement["Action"]
        actions |= dict.fromkeys(
            [named] if isinstance(named, str) else named, statement["Resource"]
        )
    assert not any("*" in action for action in actions)
    repository = "arn:aws:ecr:us-east-1:111111111111:repository/muster/ddp"
    key = "arn:aws:s3:::sagemaker-us-east-1-111111111111/ddp-2026-12-01/source/sourcedir.tar.gz"
    assert fnmatch.fnmatchcase(repository, actions["ecr:BatchGetImage"])
    assert fnmatch.fnmatchcase(key, actions["s3:GetObject"])
    assert not fnmatch.fnmatchcase("arn:aws:s3:::other/key", actions["s3:PutObject"])
    # These two know no resource.
    everywhere = [action for action, resource in actions.items() if resource == "*"]
    assert everywhere == ["ecr:GetAuthorizationToken", "cloudwatch:PutMetricData"]


@pytest.mark.docker
@pytest.mark.xdist_group("sagemaker-local")
def test_the_same_example_in_local_mode(run_sdk, sdk_env, accuracy, image, root, digits):
    """With --local the example trains in two containers on this machine."""
    example = root / "examples" / "sagemaker" / "first_job.py"
    said = run_sdk("sdk-v2", example, "--image", image, "--local", "--data", digits)
    assert accuracy(said) > 0.95
    assert Path(sdk_env["TMPDIR"], "muster-first-job", "model.tar.gz").exists()
