"""A launcher inside a rank."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from muster.training.nested import is_torchrun

HELLO = "print('world of one')"


@pytest.mark.parametrize(
    ("argv", "nested"),
    [
        (["python", "/opt/venv/bin/torchrun", "--nproc-per-node=2", "train.py"], True),
        (["python", "-u", "-m", "torch.distributed.run", "train.py"], True),
        (["python", "-m", "torch.distributed.launch", "train.py"], True),
        (["python", "train.py", "torchrun"], False),
        (["python", "-u", "train.py"], False),
        (["python", "-m", "train"], False),
        (["python", "-m"], False),
        (["python", "-c", "import torch.distributed.run"], False),
        (["python"], False),
        ([], False),
    ],
)
def test_torchrun_by_its_command_line(argv, nested):
    """By its program or its module; a script that only speaks of it is none."""
    assert is_torchrun(argv) == nested


@pytest.mark.parametrize(
    ("env", "status"),
    [
        ({"MUSTER_RANKS": "mpirun", "WORLD_SIZE": "2"}, 1),
        ({"MUSTER_RANKS": "mpirun", "WORLD_SIZE": "1"}, 0),
        ({"WORLD_SIZE": "2"}, 0),
    ],
)
def test_it_is_refused_where_there_are_ranks(env, status, tmp_path, clean_env):
    """The line says what to do; one rank alone, and launcher cluster, may start their own."""
    torchrun = tmp_path / "torchrun"
    torchrun.write_text(HELLO, encoding="utf-8")
    found = {**clean_env, "MUSTER_ERROR_DIR": str(tmp_path), **env}
    done = subprocess.run(
        [sys.executable, str(torchrun)], env=found, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    assert ("MUSTER_LAUNCHER=cluster" in done.stderr) == bool(status)
    assert os.path.exists(tmp_path)
