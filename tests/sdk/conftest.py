from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def sdk_v2() -> Path:
    """The Python of a venv with SDK v2, made once for each version of its requirements."""
    requirements = HERE / "requirements-v2.txt"
    version = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    folder = HERE.parent.parent / "build" / f"sdk-v2-{version}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [python, "-m", "pip", "install", "-qq", "-r", requirements]
        subprocess.run(pip, check=True, timeout=600)
        (folder / "complete").touch()
    return python


@pytest.fixture
def no_aws(tmp_path) -> dict[str, str]:
    """An environment in which the SDK reaches for nothing outside this machine."""
    config = tmp_path / "sagemaker-config.yaml"
    # Its telemetry waits on the network for minutes where there is none.
    config.write_text(
        "SchemaVersion: '1.0'\n"
        "SageMaker:\n  PythonSDK:\n    Modules:\n      TelemetryOptOut: true\n",
        encoding="utf-8",
    )
    return {
        **os.environ,
        "SAGEMAKER_USER_CONFIG_OVERRIDE": str(config),
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
