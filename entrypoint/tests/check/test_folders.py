import errno
import os
import threading
from types import SimpleNamespace

import pytest

from muster.check import folders
from muster.check.finding import Here
from muster.check.folders import Room, Tried
from muster.check.room import CHECKS, judge_disk, judge_inodes, judge_writable
from muster.model import Paths
from muster.settings import read_settings

GIB = 2**30
WELL = SimpleNamespace(f_blocks=2**30, f_bavail=2**29, f_frsize=4096, f_files=9, f_favail=9)
FULL = SimpleNamespace(f_blocks=9, f_bavail=0, f_frsize=4096, f_files=9, f_favail=9)
MODEL, OUTPUT = "/opt/ml/model", "/opt/ml/output/data"


@pytest.fixture
def job(make_job, tmp_path):
    """Return a job whose folders are the test's own, and there."""
    paths = Paths(str(tmp_path / "ml"))
    for folder in (paths.model, paths.output_data):
        os.makedirs(folder)
    return make_job(paths=paths, checkpoints=paths.checkpoints)


@pytest.fixture
def env(tmp_path) -> dict[str, str]:
    """Return an environment with temporary files of the test's own."""
    (tmp_path / "tmp").mkdir()
    return {"TMPDIR": str(tmp_path / "tmp")}


@pytest.mark.parametrize(
    ("size", "free", "status", "share"),
    [
        (100 * GIB, 50 * GIB, "PASS", "50.0 GiB free of 100 GiB (50%)"),
        (100 * GIB, 9 * GIB, "WARN", "9.0 GiB free of 100 GiB (9%)"),
        (16000 * GIB, 30 * GIB, "PASS", "30.0 GiB free of 15.6 TiB (0%)"),
        (2 * GIB, GIB - 1, "WARN", "1024 MiB free of 2.0 GiB (50%)"),
        (10 * GIB, 2 * GIB, "PASS", "2.0 GiB free of 10.0 GiB (20%)"),
        (100 * GIB, 0, "FAIL", "0 B free of 100 GiB (0%)"),
    ],
    ids=["half", "a-tenth", "large", "small", "small-but-empty", "full"],
)
def test_room(size, free, status, share):
    """A tenth of a large volume is plenty, and a gibibyte of a small one is not."""
    found = judge_disk([Room(MODEL, size, free), Room(OUTPUT, size, free)])
    assert found.status == status
    assert found.evidence == f"{MODEL}, {OUTPUT}: {share}"
    assert bool(found.remedy) == (status != "PASS")


def test_the_worst_folder_counts():
    """A full one is not hidden among others, and one that can't be seen is no PASS."""
    full, well = Room("/tmp", GIB, 0), Room(MODEL, 100 * GIB, 50 * GIB)
    dead = Room(OUTPUT, unseen="it has not answered within 3 s")
    assert judge_disk([well, full, dead]).status == "FAIL"
    assert judge_disk([well, full, dead]).evidence == "/tmp: 0 B free of 1.0 GiB (0%)"
    assert judge_disk([well, dead]).status == "UNKNOWN"
    assert judge_disk([well, dead]).evidence == f"{OUTPUT}: it has not answered within 3 s"


@pytest.mark.parametrize(
    ("inodes", "free", "status", "evidence"),
    [
        (1000, 500, "PASS", f"{MODEL}: 500 inodes free of 1000 (50%)"),
        (1000, 49, "WARN", f"{MODEL}: 49 inodes free of 1000 (5%)"),
        (1000, 0, "FAIL", f"{MODEL}: 0 inodes free of 1000 (0%)"),
        (0, 0, "SKIP", "these file systems don't count inodes"),
    ],
    ids=["many", "few", "none", "uncounted"],
)
def test_inodes(inodes, free, status, evidence):
    """A disk can be full with bytes free; a file system that does not count them is not full."""
    found = judge_inodes([Room(MODEL, 100 * GIB, 50 * GIB, inodes, free)])
    assert (found.status, found.evidence) == (status, evidence)


def test_a_file_system_that_tells_nothing():
    """One without a size is none that is full."""
    assert judge_disk([Room(MODEL)]).status == "SKIP"


@pytest.mark.parametrize(
    ("tried", "status", "evidence"),
    [
        (Tried(MODEL), "PASS", MODEL),
        (Tried(MODEL, there=False), "PASS", f"{MODEL} can be made"),
        (
            Tried(MODEL, error="Read-only file system"),
            "FAIL",
            f"{MODEL} can't be written: Read-only file system",
        ),
        (
            Tried(MODEL, there=False, error="it can't be made"),
            "WARN",
            f"{MODEL} can't be written: it can't be made",
        ),
        (
            Tried(OUTPUT, error="Permission denied"),
            "WARN",
            f"{OUTPUT} can't be written: Permission denied",
        ),
        (Tried(MODEL, unseen="late"), "UNKNOWN", f"{MODEL}: late"),
    ],
    ids=["good", "not-there", "model", "no-model", "output", "late"],
)
def test_writable(tried, status, evidence):
    """A model folder that is there and closed makes the job pointless; all else is a warning."""
    found = judge_writable([tried, Tried("/tmp")], MODEL, 1000)
    assert found.status == status
    assert found.evidence.startswith(evidence)
    if found.remedy:
        assert f"Mount {tried.path} writable" in found.remedy
        assert "1000" in found.remedy


def test_nothing_stays_in_the_folders(look, job, env, tmp_path):
    """The files that were tried are gone, and no folder for checkpoints has been made."""
    assert look("host.writable", job, env=env).status == "PASS"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert not os.path.exists(job.checkpoints)


def test_checkpoints_are_not_written_twice(look, job, env, monkeypatch):
    """Their folder has been tried before; here only its room counts."""
    os.makedirs(job.checkpoints)
    written = []
    monkeypatch.setattr(folders, "write", lambda path: written.append(os.path.dirname(path)))
    assert look("host.writable", job, env=env).status == "PASS"
    assert sorted(written) == sorted([job.paths.model, job.paths.output_data, env["TMPDIR"]])
    monkeypatch.setattr(os, "statvfs", lambda _: WELL)
    assert job.checkpoints in look("host.disk", job, env=env).evidence


def test_a_folder_that_can_not_be_written(look, job, env, monkeypatch):
    """The system's own words are told."""

    def refuse(path: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr(folders, "write", refuse)
    found = look("host.writable", job, env=env)
    assert found.status == "FAIL"
    assert found.evidence == f"{job.paths.model} can't be written: Read-only file system"


def test_a_folder_that_is_not_there_yet(look, make_job, env, tmp_path, monkeypatch):
    """By hand, before any job: what is above it counts, and nothing is made for a look."""
    looked = []
    monkeypatch.setattr(os, "statvfs", lambda path: looked.append(path) or WELL)
    paths = Paths(str(tmp_path / "none"))
    job = make_job(paths=paths, checkpoints=paths.checkpoints)
    assert "model can be made" in look("host.writable", job, env=env).evidence
    assert look("host.disk", job, env=env).status == "PASS"
    assert set(looked) == {str(tmp_path), env["TMPDIR"]}
    assert not (tmp_path / "none").exists()


def test_a_file_in_the_folders_place(look, job, env):
    """It is there and no folder: what the script writes would be lost."""
    os.rmdir(job.paths.model)
    with open(job.paths.model, "x", encoding="utf-8"):
        pass
    found = look("host.writable", job, env=env)
    assert (found.status, found.evidence) == (
        "FAIL",
        f"{job.paths.model} can't be written: it is no folder",
    )


def test_a_file_server_that_is_gone(look, job, env, monkeypatch):
    """It costs its time-out and is UNKNOWN; a folder that is full is told all the same."""
    stop = threading.Event()
    answers = {"free": WELL}

    def tell(path: str) -> SimpleNamespace:
        if path == job.paths.model:
            stop.wait(30)
        return answers["free"]

    monkeypatch.setattr(os, "statvfs", tell)
    monkeypatch.setattr(folders, "LOOK_S", 0.3)
    found = look("host.disk", job, env=env)
    assert (found.status, found.evidence) == (
        "UNKNOWN",
        f"{job.paths.model}: it has not answered within 0.3 s",
    )
    answers["free"] = FULL
    assert look("host.disk", job, env=env).status == "FAIL"
    assert look("host.inodes", job, env=env).status == "UNKNOWN"
    stop.set()


def test_rooms_are_looked_at_once(job, env, monkeypatch):
    """Two checks share the look."""
    looked = []
    monkeypatch.setattr(os, "statvfs", lambda path: looked.append(path) or WELL)
    here = Here(job, read_settings({}), env, 1, "fast")
    for check in CHECKS:
        check.look(here)
    assert sorted(looked) == sorted([job.paths.model, job.paths.output_data, env["TMPDIR"]])
