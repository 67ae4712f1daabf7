"""Launcher cluster: a script that brings its own launcher finds the hosts, and reaches them without SSH."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
from pathlib import Path

import pytest
from job_process import start_job

HOSTS = {"algo-1": "127.4.0.1", "algo-2": "127.4.0.2"}
ENTRY = """#!/bin/sh
set -e
echo "node $NODE_RANK of $NNODES, $NPROC_PER_NODE each, at $MASTER_ADDR:$MASTER_PORT"
cat "$MUSTER_HOSTFILE"
if [ "$NODE_RANK" = 0 ]; then
    ssh -o BatchMode=yes algo-2 'echo "reached $SM_CURRENT_HOST ($MUSTER_SECRET_WORD)"; exit 5' || echo "status $?"
fi
touch "$SM_MODEL_DIR/done"
while [ ! -e "$SM_MODEL_DIR/../../../$OTHER/ml/model/done" ]; do sleep 0.05; done
"""


@pytest.fixture
def two_hosts(tmp_path):
    """A function that starts both hosts on a shell script; what is left of them is ended."""
    runs = {}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def start(script: str, **env: str):
        for host, other in zip(HOSTS, reversed(HOSTS), strict=True):
            config = tmp_path / host / "ml" / "input" / "config"
            config.mkdir(parents=True)
            resources = {"current_host": host, "hosts": list(HOSTS)}
            (config / "resourceconfig.json").write_text(json.dumps(resources), encoding="utf-8")
            own = {
                "MUSTER_PORT": str(port),
                "MUSTER_ADDRESSES": ",".join("=".join(pair) for pair in HOSTS.items()),
                "MUSTER_NPROC": "3",
                "OTHER": other,
                "MUSTER_SECRET_WORD": f"word of {host}",
            }
            runs[host] = start_job(tmp_path / host, script, (), "run.sh", own | env)
        return runs

    yield start
    for run in runs.values():
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate()


def test_a_script_with_its_own_launcher(two_hosts):
    """The entry runs once a host with what launchers ask for, and `ssh` reaches the other host's environment."""
    first, second = two_hosts(ENTRY).values()
    assert (first.finish(), second.finish()) == (0, 0), first.err + second.err
    # The port is 7777, or another where a job of this machine has that.
    assert re.search(r"node 0 of 2, 3 each, at 127\.4\.0\.1:\d+$", first.out, re.MULTILINE)
    assert re.search(r"node 1 of 2, 3 each, at 127\.4\.0\.1:\d+$", second.out, re.MULTILINE)
    assert "127.4.0.1 slots=3\n127.4.0.2 slots=3\n" in first.out
    assert "reached algo-2 (word of algo-2)" in first.out
    assert "status 5" in first.out
    assert first.record["launcher"] == "cluster"


def test_ssh_is_for_launchers_that_need_it(two_hosts):
    """Under plain, as under torchrun, nothing of it is there."""
    script = "#!/bin/sh\nenv | grep MUSTER_RSH && exit 3; command -v ssh | grep muster && exit 4; exit 0\n"
    runs = two_hosts(script, MUSTER_LAUNCHER="plain").values()
    assert [run.finish() for run in runs] == [0, 0], [run.err for run in runs]


def test_the_hostfile_goes_with_the_job(two_hosts):
    """What was made for the job is private, and gone afterwards."""
    script = '#!/bin/sh\nstat -c %a "$(dirname "$MUSTER_HOSTFILE")"; echo "$MUSTER_HOSTFILE"\n'
    first, second = two_hosts(script).values()
    assert (first.finish(), second.finish()) == (0, 0), first.err
    mode, path = first.out.split()
    assert stat.S_IMODE(int(mode, 8)) == 0o700
    assert not os.path.exists(Path(path).parent)
