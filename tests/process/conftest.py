from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Run:
    """One `muster train` as a real process, with a folder of its own for /opt/ml."""

    process: subprocess.Popen[str]
    base: Path

    def finish(self, timeout: float = 60) -> int:
        """Its status; `out` and `err` are set after it."""
        self.out, self.err = self.process.communicate(timeout=timeout)
        code = self.process.returncode
        return 128 - code if code < 0 else code

    def wait_for_file(self, name: str, timeout: float = 30) -> Path:
        """Waits until the script has written `name` into the model folder."""
        path = self.base / "model" / name
        deadline = time.monotonic() + timeout
        while not path.exists():
            assert time.monotonic() < deadline, f"no {name}"
            assert self.process.poll() is None, self.finish()
            time.sleep(0.02)
        return path

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    @property
    def failure(self) -> list[str]:
        path = self.base / "output" / "failure"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    @property
    def record(self) -> dict[str, Any]:
        (path,) = (self.base / "output" / "data" / "muster").glob("run-*.json")
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return record


@pytest.fixture
def train(tmp_path):
    """A function that starts `muster train` on a script's text, and ends what is left of it."""
    runs: list[Run] = []

    def start(script: str, *arguments: str, name: str = "train.py", **settings: str) -> Run:
        code = tmp_path / "code"
        code.mkdir(exist_ok=True)
        (code / name).write_text(textwrap.dedent(script), encoding="utf-8")
        env = {**os.environ, "SAGEMAKER_BASE_DIR": str(tmp_path / "ml"), **settings}
        process = subprocess.Popen(
            [sys.executable, "-m", "muster", "train", str(code / name), *arguments],
            env=env,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        runs.append(Run(process, tmp_path / "ml"))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
        run.process.wait()
