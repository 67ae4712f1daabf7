"""`muster check`, in this process: what it looks at is faked where the machine would decide."""

import json

import pytest

from muster.check import capacity, registry
from muster.check.finding import Check, Finding
from muster.cli import main
from muster.inspection import inspect_host


@pytest.fixture
def finds(monkeypatch):
    """Return a function that sets what the registry's checks find, by name."""

    def replace(**findings: Finding) -> None:
        rows = tuple(
            Check(name.replace("_", "."), "fast", "x", lambda _, one=one: one)
            for name, one in findings.items()
        )
        monkeypatch.setattr(registry, "CHECKS", rows)

    return replace


WELL = Finding("PASS", "all is well")


def test_without_any_job(opt_ml, capsys):
    """No file of SageMaker's is needed, and none is made: every check has its line and its time."""
    assert inspect_host([], opt_ml.env) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    # Those that compare hosts are a job's.
    names = [
        check.name for check in registry.CHECKS if check.level == "fast" and not check.together
    ]
    assert head.startswith(f"checks: {len(names) + 2}: ")
    shown = [line.split()[1] for line in lines if line.startswith("  ") and line[2] != " "]
    assert shown == ["device", "checkpoints", *names]
    assert all(" s  " in line for line in lines if line[2] != " ")
    assert list(opt_ml.base.iterdir()) == []


def test_a_fail_is_the_status(opt_ml, capsys, finds):
    """75 where a job would end, whatever else is well; its remedy is below it."""
    finds(a_b=WELL, c_d=Finding("FAIL", "lost", "replace it"), e_f=Finding("WARN", "odd", "look"))
    assert inspect_host([], opt_ml.env) == 75
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "checks: 5: 1 FAIL, 1 WARN, 3 PASS"
    assert lines[lines.index(next(x for x in lines if "c.d" in x)) + 1].strip() == "replace it"


@pytest.mark.parametrize("status", ["WARN", "UNKNOWN", "SKIP"])
def test_only_a_fail_ends_anything(opt_ml, capsys, finds, status):
    """As in a job; what could not be looked at is shown as UNKNOWN."""
    finds(a_b=Finding(status, "odd", "look"))
    assert inspect_host([], opt_ml.env) == 0
    assert f"  {status:<7} a.b " in capsys.readouterr().out


def test_as_json(opt_ml, capsys, finds):
    """One object, with the same status."""
    finds(a_b=Finding("FAIL", "lost", "replace it"))
    assert inspect_host(["--json"], opt_ml.env) == 75
    account = json.loads(capsys.readouterr().out)
    assert (account["level"], account["status"]) == ("fast", 75)
    found = account["checks"][-1]
    assert found.pop("seconds") >= 0
    assert found == {"name": "a.b", "status": "FAIL", "evidence": "lost", "remedy": "replace it"}


@pytest.mark.parametrize(
    ("words", "env", "level"),
    [
        ([], {}, "fast"),
        ([], {"MUSTER_CHECK": "full"}, "full"),
        ([], {"MUSTER_CHECK": "off"}, "fast"),
        (["--level", "full"], {"MUSTER_CHECK": "fast"}, "full"),
    ],
    ids=["default", "setting", "off", "option"],
)
def test_the_level(opt_ml, capsys, words, env, level):
    """By hand something is always looked at; what is asked for on the line wins."""
    inspect_host([*words, "--json"], opt_ml.env | env)
    account = json.loads(capsys.readouterr().out)
    assert account["level"] == level
    names = [found["name"] for found in account["checks"]]
    assert ("storage.channels" in names) == (level == "full")


def test_with_a_jobs_files(opt_ml, capsys, monkeypatch):
    """The job's ranks and hosts count, its severities too; the other hosts are not looked at."""
    monkeypatch.setattr(capacity, "shared_memory", lambda _: (0, 0))
    opt_ml.config("resourceconfig", {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"]})
    env = {"MUSTER_NPROC": "8", "MUSTER_ADDRESSES": "algo-1=127.0.0.1,algo-2=127.0.0.2"}
    severe = {"MUSTER_CHECKS": "host.shm=fail"}
    assert inspect_host([], opt_ml.env | env | severe) == 75
    out = capsys.readouterr().out
    assert "8 ranks may need 8.0 GiB (algo-2)" not in out
    assert "8 ranks may need 8.0 GiB" in out
    assert "2 names resolved" in out
    assert out.endswith("Only algo-2 was looked at, of 2 hosts.\n")


def test_what_ends_a_job_earlier_is_told_too(opt_ml, capsys, finds):
    """A folder for checkpoints that can't be made, and a GPU image without a GPU."""
    finds(a_b=WELL)
    opt_ml.file("checkpoints", "a file in its place")
    env = {"MUSTER_CHECKPOINT_DIR": f"{opt_ml.base}/checkpoints", "MUSTER_IMAGE_DEVICE": "gpu"}
    assert inspect_host(["--json"], opt_ml.env | env | {"CUDA_VISIBLE_DEVICES": ""}) == 75
    device, checkpoints, _ = json.loads(capsys.readouterr().out)["checks"]
    assert (device["status"], checkpoints["status"]) == ("FAIL", "FAIL")
    assert "made for GPUs" in device["evidence"]
    assert "File exists" in checkpoints["evidence"]


def test_a_job_that_can_not_be_read(opt_ml, capsys):
    """It ends as the job would, with the reason on stderr and nothing on stdout."""
    opt_ml.config("resourceconfig", "{")
    assert inspect_host([], opt_ml.env) == 70
    told = capsys.readouterr()
    assert told.out == ""
    assert "resourceconfig.json is not JSON" in told.err


def test_no_secret_is_shown(opt_ml, capsys, finds):
    """Evidence may hold an address with a password."""
    finds(a_b=Finding("WARN", "no https://me:hunter2@host/x", "see https://me:hunter2@host/x"))
    for words in ([], ["--json"]):
        inspect_host(words, opt_ml.env)
        assert "hunter2" not in capsys.readouterr().out


def test_the_words(opt_ml, capsys, monkeypatch, finds):
    """`muster check` is the command; an unknown level is an error of the line."""
    finds(a_b=WELL)
    for name, value in opt_ml.env.items():
        monkeypatch.setenv(name, value)
    assert main(["check"]) == 0
    assert "a.b" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["check", "--level", "most"])
    assert caught.value.code == 2
