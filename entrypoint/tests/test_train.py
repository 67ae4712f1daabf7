"""The whole pipeline with a real script, without torch: the launcher is `plain`."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def train(muster, opt_ml) -> Run:
    """Return a function that runs a script as the job's entry point."""

    def run(code: str, env: dict[str, str] | None = None, **hyperparameters: str):
        opt_ml.file("code/train.py", code)
        opt_ml.config("hyperparameters", {"sagemaker_program": "train.py", **hyperparameters})
        return muster("train", env=opt_ml.env | {"MUSTER_LAUNCHER": "plain"} | (env or {}))

    return run


def test_hostile_values_arrive_byte_for_byte(train, tmp_path):
    """Nothing between SageMaker's file and the script's argv looks into a value."""
    values = {
        "a": "a b",
        "b": f"x; touch {tmp_path}/pwned",
        "c": f"$(touch {tmp_path}/pwned) `touch {tmp_path}/pwned` $HOME *.py",
        "d": "'\"\\ \n\t",
        "e": "größe 🎓",
        "f": "",
        "g": "--h",
        "i": " 3",
        "j": "1e5",
    }
    code = "import json, os, sys\nprint(json.dumps([sys.argv[1:], os.environ['SM_HPS']]))\n"
    done = train(code, **values)
    assert done.returncode == 0, done.stderr
    argv, sm_hps = json.loads(done.stdout)
    assert argv == [word for key, value in values.items() for word in (f"-{key}", value)]
    assert json.loads(sm_hps) == values | {"i": 3, "j": 100000.0}
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit(75)", 75),
        ("import sys; sys.exit(255)", 255),
        ("import sys; sys.exit('no data')", 1),
        ("import os; os.abort()", 134),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("raise ValueError('bad label 7')", 1),
    ],
)
def test_the_scripts_end_is_the_containers(train, opt_ml, code: str, status: int):
    """The status is the script's own; a failure file is there exactly when it isn't 0."""
    assert train(code).returncode == status
    record = opt_ml.record
    assert record["status"] == status
    assert [rank["status"] for rank in record["ranks"]] == [status]
    assert (opt_ml.base / "output" / "failure").exists() == bool(status)


NOISY = """
import sys
for number in range(10_000):
    print("noise", number, file=sys.stderr)
raise ValueError("bad label 7")
"""
USAGE = """
import argparse
argparse.ArgumentParser(prog="train.py").parse_args(["--lrr", "1"])
"""
REASONS = {
    "exception": (NOISY, "ValueError: bad label 7", "kind=user .*rank=0 status=1"),
    "exit with a text": ("import sys; sys.exit('no data')", "no data", "kind=user .*status=1"),
    "exit with a status": (
        "import sys; sys.exit(33)",
        "the script ended with status 33",
        "kind=user .*rank=0 status=33",
    ),
    "argparse": (
        USAGE,
        "train.py: error: unrecognized arguments: --lrr 1",
        "kind=user .*rank=0 status=2",
    ),
    "import": (
        "import torchh",
        "ModuleNotFoundError: No module named 'torchh'",
        "kind=user .*status=1",
    ),
    "syntax": ("x = (", "SyntaxError: '(' was never closed", "kind=user .*status=1"),
    "signal": (
        "import os; os.kill(os.getpid(), 9)",
        "the script was killed by SIGKILL (signal 9)",
        "kind=signal .*rank=0 status=137",
    ),
}


@pytest.mark.parametrize(("code", "first", "second"), REASONS.values(), ids=list(REASONS))
def test_the_failure_file_begins_with_the_reason(train, opt_ml, code: str, first: str, second: str):
    """Line 1 is what went wrong in the script, line 2 is for machines, whatever else was printed."""
    train(code)
    lines = opt_ml.failure.splitlines()
    assert lines[0] == first
    assert lines[1].startswith("muster kind=")
    assert re.search(second, lines[1])


def test_the_log_is_the_scripts(train):
    """Rank 0's lines are in the log as they were printed, on the stream where they were printed."""
    done = train("import sys\nprint('  out')\nprint('err', file=sys.stderr)\n")
    assert done.stdout == "  out\n"
    assert "err" in done.stderr.splitlines()
    ours = [line for line in done.stderr.splitlines() if line != "err"]
    assert all(line.startswith("[muster ") for line in ours)


def test_secrets_stay_out_of_the_log_and_the_output(train, opt_ml):
    """Neither the banner nor the record nor the failure file shows a hyperparameter's secret."""
    done = train(
        "raise ValueError('x')",
        {"AWS_SECRET_ACCESS_KEY": "hunter2", "PIP_INDEX_URL": "https://me:hunter2@pypi.example"},
        hf_token="hunter2",
        wandb_api_key="hunter2",
        password="hunter2",
        index="https://me:hunter2@pypi.example",
    )
    written = done.stdout + done.stderr + opt_ml.failure + json.dumps(opt_ml.record)
    assert "--hf_token '***'" in written
    assert "hunter2" not in written


def test_the_scripts_own_failure_file_stays_first(train, opt_ml):
    """A script may classify its failure itself: its words come first, ours after them."""
    done = train(
        "import os, sys\n"
        "open(os.environ['SM_OUTPUT_FAILURE'], 'w').write('DATA_ERROR: x')\nsys.exit(4)\n"
    )
    assert done.returncode == 4
    assert opt_ml.failure.startswith("DATA_ERROR: x\nthe script ended with status 4\nmuster kind=")


FAILURES_OF_OURS = [
    pytest.param({}, {"hyperparameters": "{"}, 70, "contract", id="malformed file"),
    pytest.param({}, {"hyperparameters": ""}, 70, "contract", id="empty file"),
    pytest.param({}, {}, 70, "contract", id="no program"),
    pytest.param({"MUSTER_NPROC": "two"}, {}, 70, "contract", id="bad setting"),
    pytest.param({"SAGEMAKER_PROGRAM": "no.py"}, {}, 71, "code", id="missing script"),
    pytest.param(
        {"SAGEMAKER_PROGRAM": "train.py", "SAGEMAKER_SUBMIT_DIRECTORY": "s3://b/x.tar.gz"},
        {},
        71,
        "code",
        id="code in S3",
    ),
    pytest.param(
        {"SAGEMAKER_PROGRAM": "train.py", "MUSTER_LAUNCHER": "x"}, {}, 73, "plan", id="launcher"
    ),
]


@pytest.mark.parametrize(("env", "config", "status", "kind"), FAILURES_OF_OURS)
def test_a_failure_before_the_script(
    muster, opt_ml, env: dict[str, str], config: dict[str, str], status: int, kind: str
):
    """The harness's own failure is one clear error with its kind and status, in log and file.

    However early it comes, the file of an earlier run is not taken for the script's own.
    """
    opt_ml.file("code/train.py", "print('ran')")
    opt_ml.file("output/failure", "an older reason")
    for name, content in config.items():
        opt_ml.config(name, content)
    done = muster("train", env=opt_ml.env | env)
    assert (done.returncode, done.stdout) == (status, "")
    assert "Traceback" not in done.stderr
    assert "an older reason" not in opt_ml.failure
    reason, machine = opt_ml.failure.splitlines()[:2]
    assert reason in done.stderr
    assert machine.startswith(f"muster kind={kind} host=")
    assert machine.endswith(f"rank=- status={status}")
    assert opt_ml.record["status"] == status


def test_a_good_run_after_a_bad_one(train, opt_ml):
    """A run that ends well leaves no failure file, though an earlier one had failed."""
    opt_ml.file("output/failure", "an older reason")
    assert train("pass").returncode == 0
    assert not (opt_ml.base / "output" / "failure").exists()


def test_a_leftover_process_does_not_hold_the_job(train):
    """A helper that outlives the script with its output open is ended, and the status is the script's."""
    begun = time.monotonic()
    done = train(
        "import subprocess, sys\nsubprocess.Popen(['sleep', '60'])\nprint('done')\nsys.exit(5)\n"
    )
    assert (done.returncode, done.stdout) == (5, "done\n")
    assert time.monotonic() - begun < 20


SAVES = """
import os, signal, sys, time
def save(number, frame):
    print("saved at", number, flush=True)
    sys.exit(int(os.environ["CODE"]))
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, save)
signal.signal(signal.SIGUSR1, lambda *_: print("usr1", flush=True))
print("ready", flush=True)
while True:
    signal.pause()
"""
"""Ends with status CODE when it is asked to stop."""

DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def start(clean_env, opt_ml) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Return a function that starts a job whose script says `ready`, and waits for that."""
    with contextlib.ExitStack() as stack:

        def start_it(code: str, **env: str) -> "subprocess.Popen[str]":
            opt_ml.file("code/train.py", code)
            process = subprocess.Popen(
                [sys.executable, "-I", "-m", "muster", "train", "train.py"],
                env=clean_env | opt_ml.env | {"MUSTER_LAUNCHER": "plain"} | env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            return process

        yield start_it


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
@pytest.mark.parametrize("code", [0, 9])
def test_a_stop_reaches_the_script(start, opt_ml, number: int, code: int):
    """A stop is passed on; the script saves in its own time, and its status is the container's."""
    process = start(SAVES, CODE=str(code))
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == code, err
    assert out == f"saved at {int(number)}\n"
    assert opt_ml.record["stop_signal"] == number
    assert (opt_ml.base / "output" / "failure").exists() == bool(code)


def test_a_script_that_will_not_stop(start, opt_ml):
    """A script that does not end in the time that a stop gives is killed, and it is said."""
    process = start(DEAF, MUSTER_STOP_GRACE_S="0.3")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 137
    assert "rank 0 did not end in time: killing it" in err
    assert opt_ml.failure.startswith("rank 0 did not end within 0 s of SIGTERM")


def test_a_second_stop_changes_nothing(start):
    """Who asks twice does not interrupt the script's saving: it gets one signal."""
    process = start(SAVES.replace("sys.exit(", "time.sleep(0.5); sys.exit("), CODE="0")
    for _ in range(3):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.05)
    out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "saved at 15\n")


def test_other_signals_are_passed_on(start, opt_ml):
    """SIGUSR1 and SIGUSR2 are the script's, and are no stop."""
    process = start(SAVES.replace("SIGTERM", "SIGUSR2"), CODE="6")
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "usr1\n"
    process.send_signal(signal.SIGUSR2)
    out, _ = process.communicate(timeout=20)
    assert out == "saved at 12\n"
    assert process.returncode == 6
    assert opt_ml.record["stop_signal"] is None


def wait_until_it_reads(pid: int, path: Path) -> None:
    """Wait until the process has the file open and sleeps: a signal finds it in its read."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            opened = [os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()]
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if str(path) in opened and state == "S":
                return
        time.sleep(0.005)
    pytest.fail("it never came to read the file")


def test_a_stop_before_the_script(clean_env, opt_ml):
    """A stop while the contract is read ends the job at once, as a stop."""
    opt_ml.file("code/train.py", "")
    (opt_ml.base / "input" / "config").mkdir(parents=True)
    # Reading a FIFO that nobody writes: the harness waits here.
    fifo = opt_ml.base / "input" / "config" / "hyperparameters.json"
    os.mkfifo(fifo)
    with (
        subprocess.Popen(
            [sys.executable, "-I", "-m", "muster", "train", "train.py"],
            env=clean_env | opt_ml.env,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        fifo.open("w"),  # Opens when the harness has opened it.
    ):
        wait_until_it_reads(process.pid, fifo)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 143
    assert "Traceback" not in err
    assert "muster kind=signal host=- rank=- status=143" in opt_ml.failure


def test_exec_leaves_nothing_in_between(train, opt_ml):
    """MUSTER_EXEC=1 puts the script in the harness's place, with the job's variables."""
    code = "import os\nprint(os.getppid(), os.environ['SM_CURRENT_HOST'])\n"
    done = train(code, {"MUSTER_EXEC": "1"})
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) == os.getpid()
    assert not (opt_ml.base / "output" / "data" / "muster").exists()


def test_what_the_checks_have_found_is_in_the_record(train, opt_ml):
    """Each with its time; the stage's seconds are those of both its parts together."""
    assert train("pass").returncode == 0
    found = {check["name"]: check for check in opt_ml.record["checks"]}
    assert found["host.writable"]["status"] == "PASS"
    assert found["host.names"]["status"] == "SKIP"
    assert all(check["seconds"] < 5 for check in found.values())
    assert {"check", "code", "launch", "plan"} <= set(opt_ml.record["seconds"])
    assert train("pass", {"MUSTER_CHECK": "off"}).returncode == 0
    assert opt_ml.record["checks"] == []


def test_a_fail_of_a_check_ends_the_job(train, opt_ml):
    """Before the script begins: status 75, the evidence in line 1, the way on, and the record."""
    opt_ml.config("resourceconfig", {"current_host": "algo-1", "hosts": ["algo-1"]})
    opt_ml.file("model", "a file in its place")
    done = train("print('begun')")
    assert done.returncode == 75
    assert "begun" not in done.stdout
    first, second, *rest = opt_ml.failure.splitlines()
    model = f"{opt_ml.base}/model"
    assert first == f"check host.writable on algo-1: {model} can't be written: it is no folder"
    assert second == "muster kind=check host=algo-1 rank=- status=75"
    assert "MUSTER_CHECKS=host.writable=warn" in "\n".join(rest)
    (found,) = [one for one in opt_ml.record["checks"] if one["name"] == "host.writable"]
    assert found["status"] == "FAIL"
    assert opt_ml.record["seconds"]["check"] >= 0


def test_a_run_that_ends_before_its_checks(train, opt_ml):
    """The record has what they have found by then, and nothing waits for the rest."""
    done = train("pass", {"SAGEMAKER_PROGRAM": "missing.py"})
    assert done.returncode == 71
    assert isinstance(opt_ml.record["checks"], list)
