from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import opt_ml
import pytest
from engine import IMAGE, docker
from venvs import venv_python

HERE = Path(__file__).parent
FOLDER = "com.docker.compose.project.working_dir"
ALONE = Path(tempfile.gettempdir()) / "muster-test-sagemaker-local.lock"


@pytest.fixture
def sdk_env(tmp_path):
    """Variables under which an SDK asks nothing of AWS, and keeps its files in a folder."""
    config = tmp_path / "sagemaker-config.yaml"
    # The SDK's telemetry waits on the network for minutes where there is none.
    config.write_text(
        "SchemaVersion: '1.0'\n"
        "SageMaker:\n  PythonSDK:\n    Modules:\n      TelemetryOptOut: true\n",
        encoding="utf-8",
    )
    # Compose names its containers by the folder.
    scratch = tmp_path / f"scratch-{uuid.uuid4().hex[:8]}"
    scratch.mkdir()
    return {
        **os.environ,
        "SAGEMAKER_USER_CONFIG_OVERRIDE": str(config),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_DEFAULT_REGION": "us-east-1",
        "TMPDIR": str(scratch),
    }


@pytest.fixture
def run_under(sdk_env):
    """A function that runs a Python file under an SDK, where nothing outside this machine answers.

    It returns what was printed, and fails when the file fails.
    """
    scratch = Path(sdk_env["TMPDIR"])

    def run(sdk: str, file: Path, *arguments: object, cwd: Path = scratch) -> str:
        done = subprocess.run(
            [venv_python(HERE / f"{sdk}.txt"), file, *map(str, arguments)],
            cwd=cwd,
            env=sdk_env,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        return said

    return run


@pytest.fixture
def run_sdk(run_under, sdk_env):
    """The same for a file that starts containers.

    The SDKs' local modes share one network, and v3's hosts have the same names in every job: two at
    once, of another worker or another clone, would meet each other.
    """
    with ALONE.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield run_under
        _remove_containers(sdk_env)


def _remove_containers(sdk_env: dict[str, str]) -> None:
    # Compose leaves its containers behind, stopped.
    listed = docker("ps", "-a", "--format", f'{{{{.ID}}}} {{{{.Label "{FOLDER}"}}}}').stdout
    for line in listed.splitlines():
        container, _, folder = line.partition(" ")
        if folder.startswith(sdk_env["TMPDIR"]):
            docker("rm", "-f", "-v", container)


@pytest.fixture
def accuracy():
    """A function from an SDK's output to the one accuracy that the job has printed."""

    def find(said: str) -> float:
        (found,) = re.findall(r"test_accuracy=([0-9.]+)", said)
        return float(found)

    return find


@pytest.fixture
def image() -> str:
    return IMAGE


@dataclass(frozen=True)
class Replayed:
    """One host of a captured job: the folder that stands for /opt/ml, its code, its variables."""

    host: str
    base: Path
    code: Path
    env: dict[str, str]

    def muster_plan(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """`muster plan --json WORDS` in the code's folder, as installed."""
        return subprocess.run(
            [sys.executable, "-I", "-m", "muster", "plan", "--json", *words],
            env=self.env | variables,
            cwd=self.code,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @cached_property
    def plan(self) -> dict[str, Any]:
        """What it printed. Fails where it refuses."""
        done = self.muster_plan()
        assert done.returncode == 0, done.stderr
        plan: dict[str, Any] = json.loads(done.stdout)
        return plan

    @property
    def script_and_args(self) -> tuple[Path, ...]:
        """The end of the plan's argv, from the script on."""
        words = self.plan["argv"]
        (place,) = (i for i, word in enumerate(words) if word.startswith(str(self.code)))
        return Path(words[place]), *words[place + 1 :]


@pytest.fixture
def replay(tmp_path):
    """A function that makes one host of a captured job, with scripts where its code has to be:
    in the channel `code`, else in a folder in the place of the archive on S3."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]

    def make(job: opt_ml.Job, host: str) -> Replayed:
        base, code = tmp_path / host / "ml", tmp_path / host / "code"
        env = opt_ml.lay_out(_with_code_at(job, base, code), host, base)
        channel = base / "input" / "data" / "code"
        code = channel if channel.exists() else code
        code.mkdir(exist_ok=True)
        for script in ("train.py", "train.sh"):
            (code / script).touch()
        env |= {
            "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
            "SAGEMAKER_BASE_DIR": str(base),
            # Neither this machine's GPUs nor its ports decide.
            "CUDA_VISIBLE_DEVICES": "",
            "MUSTER_MASTER_PORT": str(port),
        }
        return Replayed(host, base, code, env)

    return make


def _with_code_at(job: opt_ml.Job, base: Path, code: Path) -> opt_ml.Job:
    """The job with an address on S3 replaced by a folder, and /opt/ml by what stands for it."""
    key = "sagemaker_submit_directory"
    sent = job["HyperParameters"]
    address = sent.get(key, "")
    if address.startswith('"s3://'):
        address = json.dumps(str(code))
    changed = {key: address.replace('"/opt/ml/', f'"{base}/')} if address else {}
    return {**job, "HyperParameters": {**sent, **changed}}
