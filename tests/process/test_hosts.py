"""Two hosts of one job as processes of this machine, each with an address of its own."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import pytest
from job_process import start_job

HOSTS = {"algo-1": "127.3.0.1", "algo-2": "127.3.0.2"}
STUBBORN = """
    import os, signal, time
    from pathlib import Path
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(os.environ["SM_MODEL_DIR"], "started").touch()
    while not Path(os.environ["SM_MODEL_DIR"], "go").exists():
        time.sleep(0.05)
    {fault}
    time.sleep(60)
"""


@pytest.fixture
def two_hosts(tmp_path):
    """A function that starts both hosts on a script; what is left of them is ended."""
    runs = []
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        "MUSTER_LAUNCHER": "plain",
        "MUSTER_PORT": str(port),
        "MUSTER_ADDRESSES": ",".join("=".join(pair) for pair in HOSTS.items()),
    }

    def start(script: str, **env: str):
        for host in HOSTS:
            config = tmp_path / host / "ml" / "input" / "config"
            config.mkdir(parents=True)
            resources = {"current_host": host, "hosts": list(HOSTS)}
            (config / "resourceconfig.json").write_text(json.dumps(resources), encoding="utf-8")
            runs.append(start_job(tmp_path / host, script, (), "train.py", shared | env))
        return runs

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate()


def used(pid: int) -> float:
    """The processor's seconds that a process has used, its own and the kernel's for it."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("fault", "noticed"),
    [('raise ValueError("bad")', 2.0), ("os.kill(os.getpid(), signal.SIGSTOP)", 6.5)],
    ids=["raises", "is-stopped"],
)
def test_waiting_costs_nothing(fault, noticed, two_hosts):
    """While ranks that don't want to end have their time, no harness turns in circles."""
    only_one = f'if os.environ["SM_CURRENT_HOST"] == "algo-2": {fault}'
    grace, silence = {"MUSTER_ABORT_GRACE_S": "5"}, {"MUSTER_SILENCE_S": "2.5"}
    runs = two_hosts(STUBBORN.format(fault=only_one), **grace, **silence)
    for run in runs:
        run.wait_for_file("started")
    for run in runs:
        (run.base / "model" / "go").touch()
    time.sleep(noticed)
    before = [used(run.process.pid) for run in runs]
    time.sleep(2)
    spent = [used(run.process.pid) - earlier for run, earlier in zip(runs, before, strict=True)]
    assert max(spent) < 0.3, spent
    statuses = {run.finish() for run in runs}
    assert statuses == ({1} if noticed == 2.0 else {78}), [run.err for run in runs]
    assert all("did not end in time: killing it" in run.err for run in runs[:1])
