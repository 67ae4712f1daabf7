"""A job as a real process of this machine, which a test can watch and signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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


def start_job(
    folder: Path, script: str, arguments: Sequence[str], name: str, env: Mapping[str, str]
) -> Run:
    """Starts `muster train` on a script's text, with everything of it below `folder`."""
    code = folder / "code"
    code.mkdir(exist_ok=True)
    (code / name).write_text(textwrap.dedent(script), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "muster", "train", str(code / name), *arguments],
        env={**os.environ, "SAGEMAKER_BASE_DIR": str(folder / "ml"), **env},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return Run(process, folder / "ml")
