import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from muster.check.finding import Result
from muster.model import Cause, ErrorRecord, Outcome, Paths, Plan, RankEnd
from muster.report import begin, finish

CAUSE = Cause("ValueError: bad label 7", "user", 1, "algo-2", 3, "Traceback …", "")
FAILED = Outcome(
    1,
    CAUSE,
    (
        RankEnd(2, 0, 11, -15, 1700000001.0, signalled=15, signalled_time=1700000000.5),
        RankEnd(
            3,
            1,
            12,
            1,
            1700000000.0,
            error=ErrorRecord("ValueError", "bad label 7", "Traceback …", 1.0, 12, 1),
        ),
    ),
)
PLAN = Plan(
    launcher="torchrun",
    host="algo-2",
    hosts=("algo-1", "algo-2"),
    node_rank=1,
    nproc=2,
    world_size=4,
    master_addr="algo-1",
    master_port=7777,
    argv=("torchrun", "train.py"),
    cwd="/opt/ml/code",
    env={"PYTHONUNBUFFERED": "1"},
    rank_env={"SM_HP_LR": "1"},
    notes=("launcher torchrun",),
)


@pytest.fixture
def job(make_job):
    """Return a job of two hosts, seen from the second."""
    return make_job(hosts=("algo-1", "algo-2"), current_host="algo-2")


@pytest.fixture
def paths(opt_ml) -> Paths:
    """Return the folders of the run."""
    return Paths(str(opt_ml.base))


def test_a_failure(opt_ml, paths, job, capfd):
    """A failed run leaves the failure file, a record, and its last words in the log."""
    finish(paths, FAILED, job, PLAN, {"launch": 1.23456})
    assert opt_ml.failure == (
        "ValueError: bad label 7\nmuster kind=user host=algo-2 rank=3 status=1\nTraceback …\n"
    )
    assert opt_ml.record["status"] == 1
    err = capfd.readouterr().err
    assert "ValueError: bad label 7" in err
    assert "muster kind=user host=algo-2 rank=3 status=1" in err


def test_the_record(opt_ml, paths, job):
    """The record is the run in one JSON object: host, plan, times, ranks, cause, what GPUs have told."""
    xid = {"host": "algo-2", "gpu": 3, "number": 31, "class": "application"}
    stopped = dataclasses.replace(FAILED, stop_signal=15, xids=(xid,))
    shm = Result("host.shm", "WARN", "/dev/shm has 64 MiB", "give it more", 0.01234)
    finish(paths, stopped, job, PLAN, {"launch": 1.23456}, [shm])
    record = opt_ml.record
    assert record.pop("muster")
    assert record == {
        "schema": 1,
        "job": "job",
        "host": "algo-2",
        "hosts": ["algo-1", "algo-2"],
        "launcher": "torchrun",
        "world_size": 4,
        "argv": ["torchrun", "train.py"],
        "notes": ["launcher torchrun"],
        "seconds": {"launch": 1.235},
        "checks": [
            {
                "name": "host.shm",
                "status": "WARN",
                "evidence": "/dev/shm has 64 MiB",
                "remedy": "give it more",
                "seconds": 0.012,
            }
        ],
        "status": 1,
        "stop_signal": 15,
        "cause": dataclasses.asdict(CAUSE),
        "ranks": [
            {
                "rank": 2,
                "local_rank": 0,
                "status": 143,
                "signal": 15,
                "ended": 1700000001.0,
                "signalled": 15,
                "error": None,
            },
            {
                "rank": 3,
                "local_rank": 1,
                "status": 1,
                "signal": None,
                "ended": 1700000000.0,
                "signalled": None,
                "error": "ValueError: bad label 7",
            },
        ],
        "xids": [xid],
    }


def test_a_success(opt_ml, paths, job, capfd):
    """A good run leaves a record and no failure file, and says nothing."""
    finish(paths, Outcome(0), job, PLAN, {})
    assert not Path(paths.failure).exists()
    assert (opt_ml.record["status"], opt_ml.record["cause"]) == (0, None)
    assert capfd.readouterr().err == ""


def test_a_success_removes_nothing(paths, job):
    """What a script wrote into the failure file stays though the run was good."""
    Path(paths.output).mkdir()
    Path(paths.failure).write_text("mine")
    finish(paths, Outcome(0), job, PLAN, {})
    assert Path(paths.failure).read_text() == "mine"


def test_a_failure_before_there_was_a_job(opt_ml, paths):
    """A run that ended before its contract was read still has its file and its record."""
    cause = Cause("hyperparameters.json is empty", "contract", 70, "-", remedy="Write one.")
    finish(paths, Outcome(70, cause), None, None, {"contract": 0.1})
    assert opt_ml.failure.splitlines() == [
        "hyperparameters.json is empty",
        "muster kind=contract host=- rank=- status=70",
        "Write one.",
    ]
    assert (opt_ml.record["job"], opt_ml.record["argv"]) == (None, None)


def test_no_secret_anywhere(opt_ml, paths, job, capfd):
    """Neither the record nor the failure file nor the log holds a secret; /opt/ml/output is public."""
    url = "https://me:hunter2@pypi.example/simple"
    plan = dataclasses.replace(
        PLAN,
        argv=("torchrun", "train.py", "--hf_token", "hunter2", "--api-key=hunter2", "--index", url),
        env={"TOKEN": "hunter2"},
        rank_env={"SM_HP_HF_TOKEN": "hunter2"},
    )
    cause = dataclasses.replace(CAUSE, headline=f"no {url}", detail=f"at {url}")
    error = ErrorRecord("OSError", f"no {url}", f"at {url}", 1.0, 12, 1)
    end = dataclasses.replace(FAILED.ranks[1], error=error)
    check = Result("storage.channels", "FAIL", f"no {url}", f"look at {url}", 0.1)
    finish(paths, Outcome(1, cause, (end,)), job, plan, {}, [check])
    written = json.dumps(opt_ml.record) + opt_ml.failure + capfd.readouterr().err
    assert "***@pypi.example" in written
    assert "hunter2" not in written


def test_an_older_failure_file_is_moved_aside(opt_ml, paths, job):
    """The file of an earlier run in the same container does not speak for this one."""
    opt_ml.file("output/failure", "old reason")
    begin(paths)
    assert not Path(paths.failure).exists()
    assert Path(f"{paths.failure}.previous").read_text() == "old reason"
    finish(paths, FAILED, job, PLAN, {})
    assert "old reason" not in opt_ml.failure


def test_an_older_failure_file_is_moved_also_without_a_model_folder(opt_ml, paths):
    """A folder that can't be made is no reason to keep an older run's failure file."""
    opt_ml.file("output/failure", "old reason")
    opt_ml.file("model", "a file where the folder should be")
    begin(paths)
    assert not Path(paths.failure).exists()


def test_the_folders_are_there_when_the_script_starts(paths):
    """A script finds the folders that it may write to."""
    begin(paths)
    assert Path(paths.model).is_dir()
    assert Path(paths.output_data).is_dir()


@pytest.mark.parametrize(
    "written", [b"DATA_ERROR: shard 7", b"\xff\xfeDATA_ERROR", b"DATA_ERROR" * 10_000]
)
def test_what_the_script_wrote_comes_first(paths, job, written: bytes):
    """The script's own failure file stays first, whatever bytes it holds, and within the limit."""
    begin(paths)
    Path(paths.failure).write_bytes(written)
    finish(paths, FAILED, job, PLAN, {})
    raw = Path(paths.failure).read_bytes()
    assert raw.decode().lstrip("\ufffd").startswith("DATA_ERROR")
    assert b"\nValueError: bad label 7\nmuster kind=user " in raw
    assert len(raw) <= 1024


@pytest.mark.parametrize("base", ["file", "file/below", "/proc/no/such"])
def test_an_unwritable_folder_ends_nothing(tmp_path, job, capfd, base: str):
    """Where nothing can be written the run goes on and ends with its own status, and it is said."""
    (tmp_path / "file").touch()
    paths = Paths(str(tmp_path / base))
    begin(paths)
    finish(paths, FAILED, job, PLAN, {})
    finish(paths, Outcome(0), job, PLAN, {})
    err = capfd.readouterr().err
    assert "ValueError: bad label 7" in err
    assert err.count("/file" if "file" in base else "/proc/no") >= 3


def test_the_record_is_written_though_the_failure_file_cannot_be(opt_ml, paths, job):
    """One file that can't be written does not take the other with it."""
    Path(paths.failure).mkdir(parents=True)
    (Path(paths.failure) / "x").touch()
    finish(paths, FAILED, job, PLAN, {})
    assert opt_ml.record["status"] == 1


def test_a_full_disk_is_said(paths, job, capfd):
    """When the disk is full the log says which file was lost."""
    Path(paths.record).mkdir(parents=True)
    Path(paths.record, "run-algo-2.json.new").symlink_to("/dev/full")
    finish(paths, Outcome(0), job, PLAN, {})
    assert f"{paths.record}/run-algo-2.json" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("host", "name"), [("algo-1", "run-algo-1.json"), ("../a b", "run-.._a_b.json")]
)
def test_each_host_has_a_record_of_its_own(paths, make_job, host: str, name: str):
    """All hosts' records end in one archive: the name keeps them apart, and is a file's."""
    finish(paths, Outcome(0), make_job(hosts=(host,)), PLAN, {})
    assert [path.name for path in Path(paths.record).iterdir()] == [name]


def test_no_half_file_is_left(paths, job):
    """Only whole files are seen: the temporary ones are gone at the end."""
    finish(paths, FAILED, job, PLAN, {})
    left: list[Any] = [path.name for path in Path(paths.output).rglob("*.new")]
    assert left == []
