from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from engine import IMAGE, docker
from venvs import venv_python

HERE = Path(__file__).parent
FOLDER = "com.docker.compose.project.working_dir"


@pytest.fixture
def run_sdk(tmp_path):
    """A function that runs a Python file under an SDK, where nothing outside this machine answers.

    It returns what was printed, and fails when the file fails.
    """
    config = tmp_path / "sagemaker-config.yaml"
    # The SDK's telemetry waits on the network for minutes where there is none.
    config.write_text(
        "SchemaVersion: '1.0'\n"
        "SageMaker:\n  PythonSDK:\n    Modules:\n      TelemetryOptOut: true\n",
        encoding="utf-8",
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = {
        **os.environ,
        "SAGEMAKER_USER_CONFIG_OVERRIDE": str(config),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_DEFAULT_REGION": "us-east-1",
        "TMPDIR": str(scratch),
    }

    def run(sdk: str, file: Path, *arguments: object, cwd: Path = scratch) -> str:
        done = subprocess.run(
            [venv_python(HERE / f"{sdk}.txt"), file, *map(str, arguments)],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        return said

    yield run
    # Compose leaves its containers behind, stopped.
    listed = docker("ps", "-a", "--format", f'{{{{.ID}}}} {{{{.Label "{FOLDER}"}}}}').stdout
    for line in listed.splitlines():
        container, _, folder = line.partition(" ")
        if folder.startswith(str(scratch)):
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
