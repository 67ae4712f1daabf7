from __future__ import annotations

import pytest

from muster.contract import read_contract
from muster.errors import ContractError
from muster.settings import read_settings


@pytest.fixture
def read(opt_ml):
    """Return a function that reads the job from the folder and variables."""

    def read_it(**variables: str):
        env = opt_ml.env | variables
        return read_contract(read_settings(env), env)

    return read_it


@pytest.mark.parametrize("content", [None, {}], ids=["absent", "empty"])
def test_nothing_is_named(read, opt_ml, content):
    """Without a CheckpointConfig the folder is the platform's usual one, and nobody has named it."""
    if content is not None:
        opt_ml.config("checkpointconfig", content)
    job = read()
    assert (job.checkpoints, job.checkpoints_source) == (f"{opt_ml.base}/checkpoints", "")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/state", "/state"),
        ("/state/", "/state"),
        ("/opt/ml/checkpoints", "{}/checkpoints"),
        ("/opt/ml/checkpoints/", "{}/checkpoints"),
        ("/opt/mlx", "/opt/mlx"),
        (None, "{}/checkpoints"),
    ],
)
def test_the_jobs_own_folder(read, opt_ml, path, expected):
    """LocalPath holds; where another folder stands for /opt/ml, below that one."""
    config = {"S3Uri": "s3://x"} if path is None else {"LocalPath": path}
    opt_ml.config("checkpointconfig", config)
    job = read()
    assert job.checkpoints == expected.format(opt_ml.base)
    assert job.checkpoints_source == "checkpointconfig.json"
    assert job.notes == ()


def test_the_variable_wins(read, opt_ml):
    """MUSTER_CHECKPOINT_DIR wins over the file, and the log has both."""
    opt_ml.config("checkpointconfig", {"LocalPath": "/state"})
    job = read(MUSTER_CHECKPOINT_DIR="/elsewhere")
    assert (job.checkpoints, job.checkpoints_source) == ("/elsewhere", "MUSTER_CHECKPOINT_DIR")
    (note,) = job.notes
    assert "/elsewhere from MUSTER_CHECKPOINT_DIR wins over /state" in note


def test_a_variable_that_is_no_path(read):
    """A path that depends on where somebody stands is refused by name."""
    with pytest.raises(ContractError, match="MUSTER_CHECKPOINT_DIR='state' can't be read"):
        read(MUSTER_CHECKPOINT_DIR="state")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("{", "is not JSON"),
        ("[]", "holds list"),
        ({"LocalPath": 3}, "LocalPath is no absolute path"),
        ({"LocalPath": ""}, "LocalPath is no absolute path"),
        ({"LocalPath": "state"}, "LocalPath is no absolute path"),
        ({"LocalPath": "/a\0b"}, "LocalPath holds a NUL byte"),
    ],
    ids=["empty", "cut-off", "list", "number", "blank", "relative", "nul"],
)
def test_a_broken_file_is_named(read, opt_ml, content, said):
    """A file that can't be read ends the job before it has cost anything, by name."""
    path = opt_ml.config("checkpointconfig", content)
    with pytest.raises(ContractError) as caught:
        read()
    assert caught.value.what.startswith(str(path))
    assert said in caught.value.what
