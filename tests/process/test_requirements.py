"""What happens to an installation when the job is to end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from job_process import start_job
from wheels import make_sdist

HOSTS = {"algo-1": "127.4.0.1", "algo-2": "127.4.0.2"}
SLOW = """
import pathlib, time, os
pathlib.Path({started!r}).write_text(str(os.getpid()))
time.sleep(120)
"""


@pytest.fixture
def hosts(tmp_path):
    """A function that starts as many hosts, each with a Python of its own that builds a package for
    minutes; what is left of them is ended."""
    runs = []
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def start(count: int, requirements: str = "slow"):
        names = list(HOSTS)[:count]
        for host in names:
            base = tmp_path / host
            config = base / "ml" / "input" / "config"
            config.mkdir(parents=True)
            resources = {"current_host": host, "hosts": names}
            (config / "resourceconfig.json").write_text(json.dumps(resources), encoding="utf-8")
            subprocess.run([sys.executable, "-m", "venv", base / "venv"], check=True)
            slow = SLOW.replace("{started!r}", repr(str(base / "started")))
            make_sdist(base / "wheels", "slow", "1.0", slow)
            mine = "slow" if host == names[0] else requirements
            (base / "requirements.txt").write_text(f"{mine}\n", encoding="utf-8")
            env = {
                "MUSTER_LAUNCHER": "plain",
                "MUSTER_PORT": str(port),
                "MUSTER_ADDRESSES": ",".join("=".join(pair) for pair in HOSTS.items()),
                "MUSTER_PYTHON": str(base / "venv/bin/python"),
                "PIP_CONFIG_FILE": os.devnull,
                "PIP_NO_BUILD_ISOLATION": "0",
            }
            runs.append(start_job(base, "print('RAN')", (), "train.py", env))
        return runs

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate()


def builder(run, timeout: float = 30) -> int:
    """The pid of what pip has started, once it runs."""
    path = run.base.parent / "started"
    deadline = time.monotonic() + timeout
    while not path.exists() or not path.read_text(encoding="utf-8"):
        assert time.monotonic() < deadline
        assert run.process.poll() is None, run.finish()
        time.sleep(0.02)
    return int(path.read_text(encoding="utf-8"))


def is_gone(pid: int) -> bool:
    """Whether a process has ended, if perhaps not been waited for."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            == "Z"
        )
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("count", [1, 2], ids=["one-host", "two-hosts"])
def test_a_stop_ends_it(hosts, count):
    """SIGTERM ends the job within seconds, on all hosts, and nothing that pip had started goes on."""
    runs = hosts(count)
    pids = [builder(run) for run in runs]
    began = time.monotonic()
    runs[-1].signal(signal.SIGTERM)
    assert {run.finish(20) for run in runs} == {143}
    assert time.monotonic() - began < 10
    assert all(is_gone(pid) for pid in pids)
    assert all("RAN" not in run.out for run in runs)
    assert "stopped by a signal before the ranks began" in runs[-1].failure[0]


def test_another_hosts_failure_ends_it(hosts):
    """Where one host can't install, no other goes on for minutes: all end with its reason, and no rank
    has begun."""
    runs = hosts(2, "nosuch")
    pid = builder(runs[0])
    assert [run.finish(60) for run in runs] == [72, 72], [run.err for run in runs]
    assert is_gone(pid)
    for run in runs:
        first, second, *_ = run.failure
        assert first.startswith("requirements.txt: nosuch is not in the folder ")
        assert second == "muster kind=requirements host=algo-2 rank=- status=72"
        assert "RAN" not in run.out
