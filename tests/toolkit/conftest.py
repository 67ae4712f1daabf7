from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from venvs import venv_python

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def toolkit():
    """A function from a contract to what AWS's sagemaker-training makes of it."""
    process = subprocess.Popen(
        [venv_python(HERE / "sagemaker-training.txt"), HERE / "scripts" / "answer.py"],
        env={**os.environ, "AWS_DEFAULT_REGION": "us-east-1", "TRAINING_JOB_NAME": "job"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask(contract: dict[str, Any]) -> dict[str, Any]:
        process.stdin.write(json.dumps(contract) + "\n")
        process.stdin.flush()
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        return answer

    yield ask
    process.stdin.close()
    process.wait(timeout=10)
