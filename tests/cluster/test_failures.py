"""How a failing job ends on real containers: the reason, the status, the time."""

from __future__ import annotations

import json
import time

import pytest
from cluster import Cluster, Job
from engine import docker

pytestmark = pytest.mark.docker

# Rank 3 fails while the others wait for it in a collective, as they would in training.
SCRIPT = """
    import os, sys, signal
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    dist.barrier()
    if dist.get_rank() == 3:
        {fail}
    dist.all_reduce(torch.ones(1))
"""


@pytest.mark.parametrize(
    ("fail", "status", "kind", "reason"),
    [
        ('raise ValueError("bad label 7")', 1, "user", "ValueError: bad label 7"),
        ("sys.exit(33)", 33, "user", "the script ended with status 33"),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            137,
            "signal",
            "the script was killed by SIGKILL (signal 9)",
        ),
    ],
    ids=["raises", "exits-33", "killed"],
)
def test_a_failing_rank_gives_its_reason_and_its_status(fail, status, kind, reason, tmp_path, code):
    """The failing rank's container ends with the rank's status, and its failure file begins with
    the reason; line 2 names host, rank and status; the other host ends too, non-zero."""
    job = Job(
        tmp_path,
        code=code(SCRIPT.format(fail=fail)),
        program="train.py",
        hosts=2,
        environment={"MUSTER_NPROC": "2"},
    )
    with Cluster(job) as cluster:
        cluster.start()
        first, second = cluster.hosts
        assert second.wait() == status, second.output
        ended = time.monotonic()
        assert first.wait() != 0, first.output
        assert time.monotonic() - ended < 15
        lines = second.failure.splitlines()
        assert lines[0] == reason
        assert lines[1] == f"muster kind={kind} host=algo-2 rank=3 status={status}"
        assert len(second.failure.encode()) <= 1024
        assert second.record["cause"]["rank"] == 3
        assert "muster itself failed" not in first.output + second.output
        # Also where all ranks of a host only lost their connection, the launcher's echo is left out.
        assert "ChildFailedError" not in first.output + second.output


def _wrong_job(case: str, folder, code) -> Job:
    """A job with one thing wrong."""
    right = code("print('trained')")
    return {
        "no-program": Job(folder, code=right),
        "missing-script": Job(folder, code=right, program="absent.py"),
        "unreadable-json": Job(folder, code=right, program="train.py"),
        "unknown-launcher": Job(
            folder, code=right, program="train.py", environment={"MUSTER_LAUNCHER": "tochrun"}
        ),
        "bad-setting": Job(
            folder, code=right, program="train.py", environment={"MUSTER_NPROC": "two"}
        ),
        "s3": Job(
            folder,
            program="train.py",
            hyperparameters={"sagemaker_submit_directory": "s3://bucket/sourcedir.tar.gz"},
        ),
    }[case]


@pytest.mark.parametrize(
    ("case", "status", "kind", "reason"),
    [
        ("no-program", 70, "contract", "the job names no entry point"),
        ("missing-script", 71, "code", "the entry point absent.py"),
        (
            "unreadable-json",
            70,
            "contract",
            "/opt/ml/input/config/hyperparameters.json is not JSON",
        ),
        ("unknown-launcher", 73, "plan", "unknown launcher 'tochrun' (MUSTER_LAUNCHER)"),
        ("bad-setting", 70, "contract", "MUSTER_NPROC='two' can't be read"),
        ("s3", 71, "code", "s3://bucket/sourcedir.tar.gz: no AWS credentials were found"),
    ],
)
def test_a_wrong_job_ends_with_one_clear_error(case, status, kind, reason, tmp_path, code):
    """One error, its kind and status, a failure file, no traceback of the harness."""
    with Cluster(_wrong_job(case, tmp_path, code)) as cluster:
        host = cluster.hosts[0]
        if case == "unreadable-json":
            broken = host.folder / "input" / "config" / "hyperparameters.json"
            broken.write_text('{"epochs": ', encoding="utf-8")
        assert cluster.run(timeout=30) == [status], host.output
        first, second, *_ = host.failure.splitlines()
        assert first.startswith(reason)
        assert second.startswith(f"muster kind={kind} host=")
        assert second.endswith(f"rank=- status={status}")
        assert first in host.output
        assert "Traceback" not in host.output


def test_a_failure_file_of_the_script_stays_first(tmp_path, code):
    """What a script writes into the failure file itself is what the user reads first."""
    script = """
        import sys
        open("/opt/ml/output/failure", "w").write("DATA_ERROR: no labels")
        sys.exit(4)
    """
    with Cluster(Job(tmp_path, code=code(script), program="train.py")) as cluster:
        assert cluster.run() == [4]
        assert cluster.hosts[0].failure.splitlines()[:2] == [
            "DATA_ERROR: no labels",
            "the script ended with status 4",
        ]


def test_a_stopped_container_lets_the_ranks_save(tmp_path, code):
    """SIGTERM reaches each rank once; ranks that save and exit 0 make the container exit 0."""
    script = """
        import os, signal, sys, time
        def save(*_):
            with open(f"/opt/ml/model/saved-{os.environ['RANK']}", "a") as file:
                file.write("x")
            time.sleep(1)
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        print("ready", flush=True)
        time.sleep(60)
    """
    job = Job(tmp_path, code(script), "train.py", environment={"MUSTER_NPROC": "2"})
    with Cluster(job) as cluster:
        cluster.start()
        (host,) = cluster.hosts
        deadline = time.monotonic() + 60
        while host.output.count("ready") < 2:
            assert time.monotonic() < deadline, host.output
            time.sleep(0.1)
        docker("stop", "--time", "30", host.container)
        assert host.wait() == 0, host.output
        saved = {path.name: path.read_text() for path in host.model.iterdir()}
        assert saved == {"saved-0": "x", "saved-1": "x"}
        assert json.dumps(host.record["stop_signal"]) == "15"
