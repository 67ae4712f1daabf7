"""Deaths that only a container can have: of memory, of a small /dev/shm, of how it was started."""

from __future__ import annotations

import time

import pytest
from cluster import Cluster, Job
from engine import IMAGE, docker

pytestmark = pytest.mark.docker

PLAIN = {"MUSTER_LAUNCHER": "plain"}


def test_case_085_out_of_memory_is_said(tmp_path, code):
    """A script that the kernel kills for memory: the reason says so, with the limit."""
    script = "data = []\nwhile True:\n    data.append(bytearray(10_000_000))"
    job = Job(
        tmp_path,
        code(script),
        "train.py",
        environment=PLAIN,
        options=("--memory=256m", "--memory-swap=256m"),
    )
    with Cluster(job) as cluster:
        assert cluster.run() == [137], cluster.hosts[0].output
        first, second, third, *_ = cluster.hosts[0].failure.splitlines()
    assert first == (
        "the script was killed by SIGKILL (signal 9): out of memory (the container may have 256 MiB)"
    )
    assert second.startswith("muster kind=signal host=algo-1 rank=0 status=137")
    assert "smaller batch" in third


def test_case_085_out_of_memory_below_torchrun_is_said(tmp_path, code):
    """The kernel takes the script or torchrun, as it likes: the reason is the memory each time."""
    script = "data = []\nwhile True:\n    data.append(bytearray(1_000_000))"
    options = ("--memory=300m", "--memory-swap=300m")
    with Cluster(Job(tmp_path, code(script), "train.py", options=options)) as cluster:
        assert cluster.run() == [137], cluster.hosts[0].output
        first, second, third, *_ = cluster.hosts[0].failure.splitlines()
    assert "out of memory (the container may have 300 MiB)" in first
    assert "kind=signal" in second
    assert "smaller batch" in third


def test_case_085_a_worker_out_of_memory_is_said(tmp_path, code):
    """When the kernel kills a worker, the script's own error comes with the reason behind it."""
    script = """
        import os
        if os.fork() == 0:
            data = []
            while True:
                data.append(bytearray(10_000_000))
        _, status = os.wait()
        raise RuntimeError(f"DataLoader worker is killed by signal {status & 127}")
    """
    job = Job(
        tmp_path,
        code(script),
        "train.py",
        environment=PLAIN,
        options=("--memory=256m", "--memory-swap=256m"),
    )
    with Cluster(job) as cluster:
        assert cluster.run() == [1], cluster.hosts[0].output
        first, _, third, *_ = cluster.hosts[0].failure.splitlines()
    assert first == "RuntimeError: DataLoader worker is killed by signal 9"
    assert third.startswith("The kernel killed a process for memory (the container may have 256")


def test_case_085_a_full_shm_is_said(tmp_path, code):
    """SIGBUS on a full /dev/shm names it, its size, and what gives more; so does the start's log."""
    script = """
        import mmap, os
        fd = os.open("/dev/shm/batch", os.O_RDWR | os.O_CREAT)
        os.ftruncate(fd, 8 << 20)
        area = mmap.mmap(fd, 8 << 20)
        area[:] = b"x" * (8 << 20)
    """
    job = Job(tmp_path, code(script), "train.py", environment=PLAIN, options=("--shm-size=1m",))
    with Cluster(job) as cluster:
        host = cluster.hosts[0]
        assert cluster.run() == [135], host.output
        first, _, third, *_ = host.failure.splitlines()
        assert first == "the script was killed by SIGBUS (signal 7): /dev/shm is full (1 MiB)"
        assert "--shm-size=1g" in third
        assert "default-shm-size" in third
        assert "/dev/shm has 1 MiB, 1 rank may need 1.0 GiB" in host.output


ORPHANS = """
import os, time
for _ in range(1000):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
time.sleep(0.5)
states = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        states.append(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0])
    except OSError:
        pass
print("zombies:", states.count("Z"))
"""


@pytest.mark.parametrize("options", [(), ("--init",)], ids=["pid-1", "init"])
def test_case_083_no_zombies_in_the_container(options, tmp_path, code):
    """A thousand orphans leave none, whoever is PID 1, and the status stays the script's."""
    script = ORPHANS + "raise SystemExit(9)"
    job = Job(tmp_path, code(script), "train.py", environment=PLAIN, options=options)
    with Cluster(job) as cluster:
        assert cluster.run() == [9], cluster.hosts[0].output
        assert "zombies: 0" in cluster.hosts[0].output


SAVES = """
import os, signal, sys, time
def save(number, frame):
    time.sleep(1)
    open(os.environ["SM_MODEL_DIR"] + "/saved", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize(
    ("options", "command", "status"),
    [
        ((), ("train",), 0),
        (("--init",), ("train",), 0),
        # The shell is PID 1 and takes no signal; exec puts muster in its place.
        (("--entrypoint", "/bin/bash"), ("-c", "exec muster train"), 0),
    ],
    ids=["pid-1", "init", "bash-exec"],
)
def test_case_083_a_stop_however_it_was_started(options, command, status, tmp_path, code):
    """`docker stop` with compose's 10 s gives the script the time to save."""
    job = Job(
        tmp_path, code(SAVES), "train.py", environment=PLAIN, options=options, command=command
    )
    with Cluster(job) as cluster:
        cluster.start()
        (host,) = cluster.hosts
        deadline = time.monotonic() + 20
        while "ready" not in host.output and time.monotonic() < deadline:
            time.sleep(0.1)
        docker("stop", "--time", "10", host.container)
        assert host.wait() == status, host.output
        assert (host.model / "saved").exists()
        assert host.failure == ""


def test_case_080_the_users_own_signals_reach_the_script(tmp_path, code):
    """`docker kill --signal USR1` is for the script, and the job goes on."""
    script = """
        import os, signal, sys, time
        def note(number, frame):
            print("got", number, flush=True)
            if number == signal.SIGUSR2:
                sys.exit(0)
        signal.signal(signal.SIGUSR1, note)
        signal.signal(signal.SIGUSR2, note)
        print("ready", flush=True)
        while True:
            time.sleep(0.1)
    """
    with Cluster(Job(tmp_path, code(script), "train.py", environment=PLAIN)) as cluster:
        cluster.start()
        (host,) = cluster.hosts
        for signal, waits_for in (("USR1", "ready"), ("USR2", "got 10")):
            deadline = time.monotonic() + 20
            while waits_for not in host.output and time.monotonic() < deadline:
                time.sleep(0.1)
            docker("kill", "--signal", signal, host.container)
        assert host.wait() == 0, host.output
        assert "got 10" in host.output
        assert "got 12" in host.output


def test_case_080_a_stop_that_comes_first_of_all():
    """A container that is stopped while it starts ends as stopped, at once."""
    words = ["-e", "MUSTER_LAUNCHER=torchrun", "-e", "SAGEMAKER_PROGRAM=x.py"]
    container = docker("create", *words, "--entrypoint", "/bin/bash", IMAGE, "-c", RACE).stdout
    container = container.strip()
    try:
        docker("start", container)
        assert int(docker("wait", container, timeout=30).stdout) == 0
        statuses = docker("logs", container).stdout.split()
    finally:
        docker("rm", "-f", "-v", container)
    # Before Python has a handler the kernel's own end counts; after it, ours; never a hang.
    assert len(statuses) == 8
    assert set(statuses) <= {"143", "71"}


RACE = """
for delay in 0 0.01 0.02 0.03 0.05 0.08 0.1 0.2; do
  muster train 2>/dev/null & pid=$!
  sleep $delay; kill -TERM $pid 2>/dev/null; wait $pid; echo $?
done
"""
