"""Stops, statuses, failure texts and logs, each as the smallest job that shows it."""

from __future__ import annotations

import re

import pytest
from engine import IMAGE, docker

TORCHRUN = {"MUSTER_LAUNCHER": "torchrun"}


@pytest.mark.docker
def test_case_079_a_small_shm_is_told(tmp_path):
    """Docker's 64 MiB are warned of at the start, with what gives more; 1 GiB is not."""
    (tmp_path / "t.py").write_text("")
    words = ["run", "--rm", "-v", f"{tmp_path}:/opt/ml/code", "-e", "MUSTER_LAUNCHER=plain"]
    small = docker(*words, IMAGE, "train", "t.py")
    large = docker(*words, "--shm-size=1g", IMAGE, "train", "t.py")
    assert "/dev/shm has 64 MiB" in small.stderr
    assert "--shm-size=1g" in small.stderr
    assert "default-shm-size" in small.stderr
    assert "/dev/shm" not in large.stderr


@pytest.mark.parametrize("launcher", ["plain", "torchrun"])
@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("sys.exit(3)", 3),
        ("sys.exit(75)", 75),
        ("sys.exit(256)", 1),
        ("sys.exit('text')", 1),
        ("os.abort()", 134),
        ("os.kill(os.getpid(), 9)", 137),
        ("import ctypes; ctypes.string_at(0)", 139),
    ],
)
def test_case_084_the_scripts_status(contract, launcher, line, status):
    """Automation that keys on statuses sees the script's own, under each launcher."""
    contract.hyperparameters()
    contract.script(f"import os, sys\n{line}")
    ended = contract.run(env={"MUSTER_LAUNCHER": launcher})
    assert ended.status == status, ended.log
    if status == 139:  # Case 85: a native crash is said to be one.
        assert "SIGSEGV" in ended.failure
        assert "Native code crashed" in ended.failure


LOUD = """
import os, sys, time
print("\\n".join(f"line {i}" for i in range(10_000)))
if os.environ["RANK"] == "1":
    raise ValueError("bad label 7" + EXTRA)
time.sleep(60)
"""


@pytest.mark.parametrize("extra", ["", " x" * 2500], ids=["short", "5-KB"])
def test_case_087_the_reason_comes_first(contract, extra):
    """Behind 10,000 lines and the launcher's own noise: the exception of the rank that failed."""
    contract.hyperparameters()
    contract.script(LOUD.replace("EXTRA", repr(extra)))
    ended = contract.run(env=TORCHRUN | {"MUSTER_NPROC": "2"})
    assert ended.status == 1
    first, second, *_ = ended.failure.splitlines()
    assert first.startswith("ValueError: bad label 7")
    assert re.fullmatch(r"muster kind=user host=\S+ rank=1 status=1", second)
    assert len(ended.failure.encode()) <= 1024
    assert "ChildFailedError" not in ended.failure


def test_case_087_an_import_error(contract):
    """A module that isn't there is named on line 1."""
    contract.hyperparameters()
    contract.script("import no_such_module")
    ended = contract.run()
    assert ended.failure.startswith("ModuleNotFoundError: No module named 'no_such_module'\n")


def test_case_088_the_users_own_failure_file(contract):
    """What the script writes there stays first; what an earlier run has left does not count."""
    path = contract.base / "output" / "failure"
    path.parent.mkdir()
    path.write_text("of an earlier run")
    contract.hyperparameters()
    contract.script(
        "import os, sys\n"
        "open(os.environ['SM_OUTPUT_FAILURE'], 'w').write('DATA_ERROR: x')\n"
        "sys.exit(4)"
    )
    ended = contract.run()
    assert ended.status == 4
    assert ended.failure.startswith("DATA_ERROR: x\n")
    assert "status=4" in ended.failure
    assert "earlier run" not in ended.failure
    assert path.with_name("failure.previous").read_text() == "of an earlier run"


def test_case_091_who_printed_this(contract):
    """A thousand long lines on both streams of two ranks: each whole, with host and rank."""
    contract.hyperparameters()
    contract.script(
        "import os, sys\n"
        "for i in range(1000):\n"
        "    print(os.environ['RANK'], i, 'x' * 300)\n"
        "    print(os.environ['RANK'], i, 'y' * 300, file=sys.stderr)"
    )
    ended = contract.run(env=TORCHRUN | {"MUSTER_NPROC": "2", "MUSTER_LOG": "prefix"})
    for rank in (0, 1):
        for letter in "xy":
            lines = re.findall(
                rf"^\[\S+ {rank}\] {rank} (\d+) {letter}{{300}}$", ended.log, re.MULTILINE
            )
            assert lines == [str(i) for i in range(1000)]


def test_case_093_bytes_and_blanks(contract):
    """An indented traceback, a character across the border of two reads, no block buffering."""
    contract.hyperparameters()
    contract.script(
        "import os, time\n"
        "print('    indented')\n"
        "os.write(1, b'a' * (64 * 1024 - 1) + '\\U0001f600\\n'.encode())\n"
        "print('  last')"
    )
    ended = contract.run()
    assert "\n    indented\n" in f"\n{ended.log}"
    assert "a\U0001f600\n" in ended.log
    assert "\n  last\n" in ended.log


@pytest.mark.parametrize("code", [0, 5])
def test_case_094_a_background_process_that_holds_the_pipe(contract, code):
    """`sleep 600 &` in a shell script: the job ends with the script's status, at once."""
    contract.config("hyperparameters", {"sagemaker_program": "run.sh"})
    contract.script(f"#!/bin/sh\nsleep 600 &\necho done\nexit {code}\n", name="run.sh")
    ended = contract.run()
    assert ended.status == code
    assert "done" in ended.log


def test_case_095_anchored_metrics(contract):
    """A metric's expression that is anchored counts rank 0's line, and it alone."""
    contract.hyperparameters()
    contract.script("import os\nprint(f\"val_loss=0.{os.environ['RANK']}5\")")
    ended = contract.run(env=TORCHRUN | {"MUSTER_NPROC": "4"})
    assert re.findall(r"^val_loss=([0-9.]+)", ended.log, re.MULTILINE) == ["0.05"]
    assert ended.log.count("val_loss=") == 4
