from __future__ import annotations

import errno
import os
from types import SimpleNamespace

import pytest

from muster.check import look_at_checkpoints
from muster.errors import CheckError

SOURCE = "checkpointconfig.json"
GIB = 2**30


@pytest.fixture
def look(make_job, tmp_path):
    """The check on a folder of this test, named by the job or not."""

    def run(name="checkpoints", source=SOURCE):
        folder = str(tmp_path / name)
        return look_at_checkpoints(make_job(checkpoints=folder, checkpoints_source=source))

    return run


@pytest.fixture
def free(monkeypatch):
    """A function that sets what the file system says of itself."""

    def have(free_bytes, blocks=1000):
        room = SimpleNamespace(f_bavail=free_bytes // 4096, f_frsize=4096, f_blocks=blocks)
        monkeypatch.setattr(os, "statvfs", lambda _: room)

    return have


def fail(number):
    """Return a function that fails as the system would."""

    def function(*_, **__):
        raise OSError(number, os.strerror(number))

    return function


def test_a_folder_that_works_is_left_as_it_was(look, free, tmp_path):
    """A named folder is made, nothing stays in it, and there is nothing to say."""
    free(50 * GIB)
    assert look() == ()
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_nothing_named_and_nothing_there(look, monkeypatch, tmp_path):
    """A job that has nothing to do with checkpoints is not asked for a folder, and gets none."""
    monkeypatch.setattr(os, "makedirs", fail(errno.EROFS))
    assert look(source="") == ()
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize(
    ("number", "text"),
    [(errno.EROFS, "Read-only file system"), (errno.EACCES, "Permission denied")],
)
def test_a_named_folder_that_can_not_be_made(look, monkeypatch, tmp_path, number, text):
    """Line 1 says what, where and who named it; the remedy what to do."""
    monkeypatch.setattr(os, "makedirs", fail(number))
    with pytest.raises(CheckError) as caught:
        look()
    assert caught.value.status == 75
    assert caught.value.what == (
        f"checkpoints can't be written to {tmp_path}/checkpoints ({SOURCE}) on algo-1: {text}"
    )
    assert "writable" in caught.value.remedy
    assert "MUSTER_CHECKPOINT_DIR" in caught.value.remedy


def test_a_file_in_the_folders_place(look, tmp_path):
    """A file where the folder should be is told as what it is."""
    (tmp_path / "checkpoints").touch()
    with pytest.raises(CheckError, match="File exists"):
        look()


@pytest.mark.parametrize("source", [SOURCE, ""], ids=["named", "there"])
def test_a_folder_in_which_no_file_can_be_made(look, monkeypatch, tmp_path, source):
    """A folder that is there is wanted, whoever has made it: it is tried, not believed."""
    (tmp_path / "checkpoints").mkdir()
    monkeypatch.setattr("builtins.open", fail(errno.EACCES))
    with pytest.raises(CheckError, match="Permission denied"):
        look(source=source)


def test_a_full_disk_by_what_it_says(look, free):
    """No byte free is an error of its own, whose remedy is room."""
    free(0)
    with pytest.raises(
        CheckError, match=r"no room for checkpoints: .* on algo-1 is full"
    ) as caught:
        look()
    assert "volume" in caught.value.remedy


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_by_what_it_does(look, monkeypatch, tmp_path, number):
    """A quota is not in what the file system says: the small file meets it, and does not stay."""
    monkeypatch.setattr(os, "fsync", fail(number))
    with pytest.raises(CheckError, match="no room for checkpoints"):
        look()
    assert list((tmp_path / "checkpoints").iterdir()) == []


@pytest.mark.parametrize(
    ("have", "notes"),
    [(GIB, ()), (300 * 2**20, ("only 300 MiB are free for checkpoints in {}",))],
    ids=["enough", "little"],
)
def test_little_room_is_only_told(look, free, tmp_path, have, notes):
    """A small model needs little: less than a gibibyte is a line, and no error."""
    free(have)
    assert look() == tuple(note.format(tmp_path / "checkpoints") for note in notes)


def test_a_file_system_that_does_not_say(look, free):
    """One that counts no blocks is not full."""
    free(0, blocks=0)
    assert look() == ()
