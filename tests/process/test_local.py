"""`muster local`: several hosts on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.fixture
def local(tmp_path):
    """A function that runs `muster local` on a script's text in a folder of its own."""

    def run(script: str, *options: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "train.py").write_text(script, encoding="utf-8")
        words = [sys.executable, "-m", "muster", "local", "train.py", *options]
        return subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )

    return run


def test_each_host_is_a_host_of_its_own(local, tmp_path):
    """Ranks, hosts, channels and hyperparameters are those of a job on two hosts."""
    data = tmp_path / "data"
    data.mkdir()
    script = (
        "import json, os, sys\n"
        "import torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "seen = [None] * dist.get_world_size()\n"
        "keys = ('RANK', 'LOCAL_RANK', 'SM_CURRENT_HOST', 'SM_CHANNEL_TRAINING')\n"
        "dist.all_gather_object(seen, [os.environ[key] for key in keys])\n"
        "if dist.get_rank() == 0: print(json.dumps([seen, sys.argv[1:]]))\n"
    )
    options = ("--hosts", "2", "--nproc", "2", "--channel", f"training={data}")
    done = local(script, *options, "--hyperparameter", "lr=1e-3", "--", "--note", "a b")
    assert done.returncode == 0, done.stdout + done.stderr
    seen, arguments = json.loads(next(x for x in done.stdout.splitlines() if x.startswith("[[")))
    assert [row[:3] for row in seen] == [
        ["0", "0", "algo-1"],
        ["1", "1", "algo-1"],
        ["2", "0", "algo-2"],
        ["3", "1", "algo-2"],
    ]
    assert all(row[3].endswith(f"{row[2]}/input/data/training") for row in seen)
    assert arguments == ["--lr", "1e-3", "--note", "a b"]


def test_a_failing_host_ends_the_job_with_its_status_and_reason(local, tmp_path):
    """The other host does not wait for ever; the table and the status are the failed host's."""
    script = (
        "import os, sys, time\n"
        "if os.environ['SM_CURRENT_HOST'] == 'algo-2': sys.exit(33)\n"
        "time.sleep(60)\n"
    )
    done = local(script, "--hosts", "2", "--launcher", "plain")
    assert done.returncode == 33, done.stdout + done.stderr
    table = " ".join(done.stdout.replace("│", " ").split())
    assert "rank 1: the script ended with status 33" in table
    assert "ended because of algo-2" in table
    (failure,) = tmp_path.glob("muster-out/*/algo-2/output/failure")
    assert failure.read_text().splitlines()[1] == "muster kind=user host=algo-2 rank=1 status=33"


@pytest.fixture
def sleeping(tmp_path):
    """A function that starts two hosts whose scripts sleep: `muster local`, and all processes of both hosts."""
    (tmp_path / "train.py").write_text(
        "import os, time\n"
        'name = f\'{os.environ["SM_MODEL_DIR"]}/{os.environ["SM_CURRENT_HOST"]}\'\n'
        "with open(name, 'w') as file: file.write(str(os.getpid()))\n"
        "time.sleep(60)\n",
        encoding="utf-8",
    )
    words = [sys.executable, "-m", "muster", "local", "train.py", "--hosts", "2"]
    process = subprocess.Popen(
        [*words, "--launcher", "plain"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    def begun() -> list[int]:
        files = list(tmp_path.glob("muster-out/*/model/algo-*"))
        return [int(text) for file in files if (text := file.read_text(encoding="utf-8"))]

    deadline = time.monotonic() + 60
    while len(begun()) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    scripts = begun()
    assert len(scripts) == 2
    yield process, [pid for script in scripts for pid in _up_to(script, process.pid)]
    process.kill()
    process.communicate(timeout=60)


def _up_to(pid: int, end: int) -> list[int]:
    """A process and its parents, up to one that is not among them."""
    found = []
    while pid not in (end, 1):
        found.append(pid)
        pid = int(_stat(pid)[1])
    return found


def _stat(pid: int) -> list[str]:
    """The state, the parent and so on; empty where the process has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def test_hosts_end_with_muster_local(sleeping):
    """Also where it had no time to end them: nothing is left of the hosts, and nobody would end it."""
    process, started = sleeping
    assert len(started) >= 6, "a harness, a shim and a script a host"
    process.kill()
    deadline = time.monotonic() + 10
    while left := [pid for pid in started if _stat(pid)[:1] not in ([], ["Z"])]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_from_outside_is_no_hosts_fault(number, sleeping):
    """The table says that somebody has stopped the job, and blames no host."""
    process, _ = sleeping
    os.kill(process.pid, number)
    said, _ = process.communicate(timeout=30)
    table = " ".join(said.replace("│", " ").split())
    assert process.returncode == 143
    assert f"stopped from outside by {signal.Signals(number).name}" in table
    assert "ended because of" not in table


def test_brackets_in_a_reason_are_text(local):
    """The table shows an error as it is, also where it looks like the table's own markup."""
    done = local("raise ValueError('[/data/train] is [red]empty[/red]')", "--launcher", "plain")
    assert done.returncode == 1, done.stdout + done.stderr
    table = " ".join(done.stdout.replace("│", " ").split())
    assert "ValueError: [/data/train] is [red]empty[/red]" in table


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (("--hosts", "0"), 2, "must be 1 to 254"),
        (("--channel", "training"), 2, "is not NAME=VALUE"),
        (("--steps", "3"), 2, "what is for the script goes behind --"),
        (("--channel", "training=absent"), 70, "the folder absent does not exist"),
        (("--launcher", "direct"), 73, "unknown launcher 'direct' (MUSTER_LAUNCHER)"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(options, status, text, local):
    """Usage errors end with 2, the job's own errors with their status, all without a traceback."""
    done = local("print('never')", *options)
    assert done.returncode == status
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert "never" not in done.stdout


def test_a_command_that_is_nowhere(tmp_path):
    """A name that is neither a file nor on PATH ends before any host is started."""
    words = [sys.executable, "-m", "muster", "local", "nothing_perf"]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "nothing_perf is neither a file here nor a command on PATH" in done.stderr
    assert not (tmp_path / "muster-out").exists()
