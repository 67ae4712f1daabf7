import json
from pathlib import Path

import pytest

from muster.launch.ranks import read_error


def write(folder: Path, pid: int, ppid: int, time: float, message: str = "x") -> None:
    record = {
        "type": "ValueError",
        "message": message,
        "traceback": "",
        "time": time,
        "pid": pid,
        "ppid": ppid,
    }
    (folder / f"{pid}.error.json").write_text(json.dumps(record))


def test_a_ranks_own_record(tmp_path):
    """The record of the script's own process speaks for the rank, though a child's is later."""
    write(tmp_path, 10, 1, 1.0, "own")
    write(tmp_path, 11, 10, 2.0, "child")
    error = read_error(str(tmp_path), 10, 1)
    assert error
    assert (error.message, error.pid) == ("own", 10)


def test_the_last_child_of_a_shell(tmp_path):
    """Where the script is a shell, the Python that failed last below it speaks."""
    write(tmp_path, 11, 10, 1.0, "first")
    write(tmp_path, 12, 10, 2.0, "last")
    write(tmp_path, 13, 11, 3.0, "grandchild")
    error = read_error(str(tmp_path), 10, 1)
    assert error
    assert error.message == "last"


@pytest.mark.parametrize("code", [2, 3, 127, -9])
def test_a_shell_that_ended_otherwise(tmp_path, code: int):
    """A child's error speaks only for a shell that passed Python's status 1 on."""
    write(tmp_path, 11, 10, 1.0)
    assert read_error(str(tmp_path), 10, code) is None


@pytest.mark.parametrize("code", [1, 3, -6])
def test_a_ranks_own_record_counts_with_any_status(tmp_path, code: int):
    """The script's own error counts however it then ended: native code often aborts after it."""
    write(tmp_path, 10, 1, 1.0)
    assert read_error(str(tmp_path), 10, code)


def test_another_ranks_record_does_not_count(tmp_path):
    """A record of another process is never taken."""
    write(tmp_path, 20, 1, 1.0)
    assert read_error(str(tmp_path), 10, 1) is None


def test_a_broken_record_does_not_count(tmp_path):
    """Half a record, one of another form, and other files are passed over."""
    (tmp_path / "10.error.json").write_text('{"type": "Val')
    (tmp_path / "11.error.json").write_text('{"pid": 11, "ppid": 10}')
    (tmp_path / "12.error.json").write_text("[]")
    (tmp_path / "13.error.json").mkdir()
    (tmp_path / "ranks.sock").touch()
    assert read_error(str(tmp_path), 10, 1) is None
    write(tmp_path, 14, 10, 1.0, "good")
    error = read_error(str(tmp_path), 10, 1)
    assert error
    assert error.message == "good"


def test_no_records(tmp_path):
    """A rank that left no record has none."""
    assert read_error(str(tmp_path), 10, 1) is None
