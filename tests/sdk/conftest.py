from __future__ import annotations

import os
from pathlib import Path

import pytest
from venvs import venv_python


@pytest.fixture(scope="session")
def sdk_v2() -> Path:
    """The Python of a venv with SDK v2, made once for each version of its requirements."""
    return venv_python(Path(__file__).parent / "sdk-v2.txt")


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
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
