"""The example that goes on where it was."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "digits_resume.py"
COMMANDS = {
    "plain": ([sys.executable, str(SCRIPT)], signal.SIGKILL),
    "muster-2": ([sys.executable, "-m", "muster", "train", str(SCRIPT)], signal.SIGTERM),
}


@pytest.mark.parametrize("way", COMMANDS)
def test_an_interrupted_training_ends_as_if_it_had_not_been(way, digits, tmp_path):
    """Interrupted in its third epoch or later and started again, it repeats nothing that was saved, and
    its last lines are those of a training that ran through."""
    command, number = COMMANDS[way]
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("SM_", "MUSTER_"))
    }
    env |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "MUSTER_NPROC": "2"}

    def start(name: str) -> subprocess.Popen[str]:
        own = {
            "SAGEMAKER_BASE_DIR": str(tmp_path / name),
            "MUSTER_CHECKPOINT_DIR": str(tmp_path / name / "checkpoints"),
        }
        words = [
            "--epochs",
            "6",
            "--data",
            str(digits),
            "--model-dir",
            str(tmp_path / name / "model"),
        ]
        return subprocess.Popen(
            [*command, *words], env=env | own, text=True, stdout=subprocess.PIPE
        )

    with start("through") as through:
        expected, _ = through.communicate(timeout=120)
    assert through.returncode == 0, expected
    with start("interrupted") as first:
        assert first.stdout
        seen = ""
        while "epoch=3 " not in seen:
            line = first.stdout.readline()
            assert line, seen
            seen += line
        first.send_signal(number)
        seen += first.stdout.read()
    assert first.returncode != 0
    with start("interrupted") as second:
        rest, _ = second.communicate(timeout=120)
    assert second.returncode == 0, rest
    found = re.search(r"^resumed after epoch=(\d)$", rest, re.MULTILINE)
    assert found, rest
    begun = int(found[1])
    assert begun >= 3
    lines = [line for line in rest.splitlines() if re.match("epoch=|test_accuracy=", line)]
    assert lines == [
        line
        for line in expected.splitlines()
        if line.startswith("test_accuracy=")
        or ((match := re.match(r"epoch=(\d)", line)) and int(match[1]) > begun)
    ]
