"""What really goes wrong for people, each case as the smallest input that shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SHOW = """
import json, os, sys
answer = {"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}
with open(os.environ["SM_MODEL_DIR"] + "/answer.json", "w", encoding="utf-8") as file:
    json.dump(answer, file)
"""
"""A script that writes down what it was given."""


@dataclass(frozen=True)
class Ended:
    """How a job ended."""

    status: int
    log: str
    base: Path

    @property
    def failure(self) -> str:
        path = self.base / "output" / "failure"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def answer(self) -> dict[str, Any]:
        """What SHOW has written."""
        text = (self.base / "model" / "answer.json").read_text(encoding="utf-8")
        answer: dict[str, Any] = json.loads(text)
        return answer

    @property
    def argv(self) -> list[str]:
        argv: list[str] = self.answer["argv"]
        return argv

    @property
    def env(self) -> dict[str, str]:
        env: dict[str, str] = self.answer["env"]
        return env


@dataclass
class Contract:
    """A folder that stands for /opt/ml, and the job in it."""

    base: Path

    def config(self, name: str, value: Any) -> None:
        """Writes input/config/NAME.json: text as it is, anything else as JSON."""
        path = self.base / "input" / "config" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")

    def hyperparameters(self, **values: Any) -> None:
        """Writes the hyperparameters of a job whose script is train.py."""
        self.config("hyperparameters", {"sagemaker_program": "train.py", **values})

    def script(self, text: str = SHOW, name: str = "train.py") -> None:
        """Puts a script into /opt/ml/code."""
        path = self.base / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> Ended:
        """Runs `muster WORDS` (else `muster train`) as a process of its own, launcher plain."""
        done = subprocess.run(
            [sys.executable, "-I", "-m", "muster", *(words or ["train"])],
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith(("SM_", "MUSTER_"))},
                "SAGEMAKER_BASE_DIR": str(self.base),
                "MUSTER_LAUNCHER": "plain",
                **(env or {}),
            },
            cwd=self.base,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        log = (done.stdout + done.stderr).decode("utf-8", "replace")
        return Ended(done.returncode, log, self.base)


@pytest.fixture
def contract(tmp_path) -> Contract:
    """An empty folder that stands for /opt/ml, with a script that writes down what it gets."""
    base = tmp_path / "ml"
    base.mkdir()
    made = Contract(base)
    made.script()
    return made
