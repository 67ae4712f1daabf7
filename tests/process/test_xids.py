"""XID errors while the ranks run: a fake driver, or a watcher that tells of them at the moment that a test needs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from fake_nvml import H100, Script, build_library
from job_process import Run

UUID = "GPU-00000002-1111-2222-3333-444444444444"
FELL_OFF = f"XID 79: the GPU has fallen off the bus on GPU 2 ({UUID})"
NO_ACCESS = f"XID 31: an access to memory that isn't there on GPU 2 ({UUID})"
CUDA = "raise RuntimeError('CUDA error: unspecified launch failure')"
SLEEPS = """
    import time
    print("training", flush=True)
    time.sleep(60)
"""
HOSTS = {"algo-1": "127.7.0.1", "algo-2": "127.7.0.2"}
TWO = {"MUSTER_LAUNCHER": "torchrun", "MUSTER_NPROC": "2"}
MUSTER = """
    # The driver's control device stands in a folder of the test's.
    import functools, json, os, sys
    import muster.launch.run as run
    from muster.check.gpu import watch
    from muster.cli import main
    from muster.launch.alarm import set_alarm

    command = json.loads(os.environ.pop("TEST_WATCHER"))
    if command:
        watch.Watch = functools.partial(watch.Watch, command=command)
    run.set_alarm = functools.partial(set_alarm, dev=os.environ.pop("TEST_DEV"))
    sys.exit(main(["train", sys.argv[1]]))
"""
TELLER = """
    import json, os, sys, time
    from pathlib import Path
    number, file, pause = int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    print(json.dumps({"registered": [0, 1, 2]}), flush=True)
    while not file.exists() and os.getppid() > 1:
        time.sleep(0.01)
    time.sleep(pause)
    event = {"index": 2, "uuid": sys.argv[4], "type": 8, "number": number, "time": time.time()}
    print(json.dumps(event), flush=True)
    time.sleep(60)
"""


@pytest.fixture
def train(tmp_path):
    """A function that runs a script where there is a driver; what is left of it is ended."""
    runs = []
    dev = tmp_path / "dev"
    dev.mkdir()
    (dev / "nvidiactl").touch()

    def start(script: str, *, command=(), folder: str = "ml", **env: str) -> Run:
        path = tmp_path / "train.py"
        path.write_text(textwrap.dedent(script), encoding="utf-8")
        settings = {
            "SAGEMAKER_BASE_DIR": str(tmp_path / folder),
            "MUSTER_LAUNCHER": "plain",
            "TEST_DEV": str(dev),
            "TEST_WATCHER": json.dumps(command),
        }
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(MUSTER), str(path)],
            env=os.environ | settings | env,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        runs.append(Run(process, tmp_path / folder))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate()


@pytest.fixture
def driver(tmp_path):
    """A function that returns the variables for a driver of three GPUs with such a timeline."""

    def make(*then: dict, **host: str) -> dict[str, str]:
        return build_library(tmp_path / "nvml", Script.of(3, H100, host=host, then=then))

    return make


@pytest.fixture
def teller(tmp_path):
    """A function that returns a watcher which tells of one XID, so long after the script has written `now`."""
    path = tmp_path / "teller.py"
    path.write_text(textwrap.dedent(TELLER), encoding="utf-8")

    def make(number: int, pause: float = 0.0, folder: str = "ml") -> list[str]:
        now = tmp_path / folder / "model" / "now"
        return [sys.executable, str(path), str(number), str(now), str(pause), UUID]

    return make


def script(*lines: str) -> str:
    """A script that says that it is `now` time."""
    first = (
        "import os, sys, time",
        "from pathlib import Path",
        "rank = os.environ.get('RANK', '0')",
        "now = Path(os.environ['SM_MODEL_DIR'], 'now')",
    )
    return "\n".join([*first, *lines])


def watchers(run: Run) -> list[str]:
    """What is left of the watchers that a run has started."""
    pids = [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]
    found = []
    for pid in pids:
        try:
            words = Path("/proc", pid, "cmdline").read_bytes()
            variables = Path("/proc", pid, "environ").read_bytes()
        except OSError:
            continue
        if b"gpu.watch" in words and str(run.base).encode() in variables:
            found.append(pid)
    return found


def test_broken_hardware_ends_the_job(train, driver):
    """XID 79 at t = 3 s: the ranks end, with the GPU's name, status 75, and what to do."""
    run = train(SLEEPS, **driver({"at": 3, "gpu": 2, "event": "8 79"}))
    began = time.monotonic()
    assert run.finish() == 75, run.err
    assert time.monotonic() - began < 15
    host = run.record["host"]
    assert run.failure[0] == f"{FELL_OFF} of {host}"
    assert run.failure[1] == f"muster kind=check host={host} rank=- status=75"
    assert run.failure[2].startswith("Replace this instance")
    assert "training" in run.out
    assert "the job can't go on with that GPU: ending all" in run.err
    (xid,) = run.record["xids"]
    assert {name: xid[name] for name in ("host", "gpu", "uuid", "number", "class")} == {
        "host": host,
        "gpu": 2,
        "uuid": UUID,
        "number": 79,
        "class": "hardware",
    }
    assert abs(xid["time"] - time.time()) < 20
    assert watchers(run) == []


def test_a_user_may_go_on_all_the_same(train, driver):
    """With the severity warn it is a line in the log and in the record."""
    env = driver({"at": 0.5, "gpu": 2, "event": "8 79"})
    run = train("import time; time.sleep(3)", MUSTER_CHECKS="gpu.xid=warn", **env)
    assert run.finish() == 0, run.err
    assert run.err.count(FELL_OFF) == 1
    assert [xid["number"] for xid in run.record["xids"]] == [79]


def test_switched_off_nothing_is_watched(train, driver):
    """No process, no line, no event."""
    env = driver({"at": 0.1, "gpu": 2, "event": "8 79"})
    run = train("import time; time.sleep(2)", MUSTER_CHECKS="gpu.xid=off", **env)
    assert run.finish() == 0, run.err
    assert "XID" not in run.err
    assert run.record["xids"] == []


def test_a_programs_error_goes_on(train, driver):
    """Two of them are two lines; ranks that live with it end well."""
    then = [{"at": at, "gpu": 2, "event": "8 31"} for at in (0.3, 0.6)]
    run = train("import time; time.sleep(3)", **driver(*then))
    assert run.finish() == 0, run.err
    assert run.err.count(NO_ACCESS) == 2
    assert [xid["class"] for xid in run.record["xids"]] == ["application"] * 2
    assert run.failure == []


def test_where_the_driver_does_not_begin_one_line_says_so(train, driver):
    """The watcher ends at once; the job does not."""
    run = train("import time; time.sleep(2)", **driver(nvmlInitWithFlags="!9"))
    assert run.finish() == 0, run.err
    assert run.err.count("gpu.xid") == 1
    assert "XID errors are not watched" in run.err


def test_a_wedged_driver_costs_a_second_at_most(train, driver):
    """The watcher is killed when the ranks are over."""
    run = train("print('trained')", **driver(nvmlInitWithFlags="hang"))
    assert run.finish() == 0, run.err
    assert run.record["seconds"]["launch"] < 5
    assert watchers(run) == []


def test_a_stop_ends_the_watcher_too(train, driver):
    """It is no straggler that the ranks have left: nobody waits for it."""
    lines = ("now.touch()", "time.sleep(60)")
    run = train(script(*lines), **driver())
    run.wait_for_file("now")
    began = time.monotonic()
    run.signal(signal.SIGTERM)
    assert run.finish() == 143, run.err
    assert time.monotonic() - began < 4
    assert watchers(run) == []


@pytest.mark.parametrize("pause", [0.0, 0.2], ids=["at-once", "later"])
@pytest.mark.parametrize("env", [{}, TWO], ids=["plain", "torchrun"])
def test_a_rank_that_fails_with_it_is_its_echo(train, teller, pause, env):
    """A rank's CUDA error comes first, and the driver tells a moment later why: the cause is the hardware."""
    lines = ("if rank == '0':", "    now.touch()", f"    {CUDA}", "time.sleep(60)")
    run = train(script(*lines), command=teller(79, pause), **env)
    assert run.finish() == 75, run.err
    assert run.failure[0] == f"{FELL_OFF} of {run.record['host']}"
    if pause:  # Else the rank may be ended before it has said so.
        assert "rank 0: RuntimeError: CUDA error: unspecified launch failure" in run.failure[-1]


def test_a_rank_that_fails_after_it_is_its_echo(train, teller):
    """It is being ended when it meets the error."""
    handler = f"    try: {CUDA}\n    finally: sys.stdout.flush()"
    lines = (
        "import signal",
        f"def fail(*_):\n{handler}",
        "signal.signal(signal.SIGTERM, fail)",
        "now.touch()",
        "time.sleep(60)",
    )
    run = train(script(*lines), command=teller(79))
    assert run.finish() == 75, run.err
    assert run.failure[0] == f"{FELL_OFF} of {run.record['host']}"


@pytest.fixture
def two_hosts(tmp_path, train, teller):
    """A function that runs a script on two hosts; a GPU of the second breaks, so long after its script's `now`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    addresses = ",".join("=".join(pair) for pair in HOSTS.items())

    def start(text: str, pause: float) -> list[Run]:
        runs = []
        for host in HOSTS:
            config = tmp_path / host / "input" / "config"
            config.mkdir(parents=True)
            resources = {"current_host": host, "hosts": [*HOSTS]}
            (config / "resourceconfig.json").write_text(json.dumps(resources), encoding="utf-8")
            env = {"MUSTER_PORT": str(port), "MUSTER_ADDRESSES": addresses}
            command = teller(79, pause, "algo-2") if host == "algo-2" else teller(79, 0, "none")
            runs.append(train(text, command=command, folder=host, **env))
        return runs

    return start


@pytest.mark.parametrize("fails", [False, True], ids=["hardware", "echo-first"])
def test_all_hosts_end_with_it(two_hosts, fails):
    """With the same reason and status; also where a rank's failure was told to the first host before it."""
    lines = (
        "if os.environ['SM_CURRENT_HOST'] == 'algo-2':",
        "    now.touch()",
        f"    {CUDA if fails else 'pass'}",
        "time.sleep(60)",
    )
    began = time.monotonic()
    first, second = two_hosts(script(*lines), 0.3)
    assert [first.finish(), second.finish()] == [75, 75], first.err + second.err
    assert time.monotonic() - began < 20
    for run in (first, second):
        assert run.failure[:2] == [
            f"{FELL_OFF} of algo-2",
            "muster kind=check host=algo-2 rank=- status=75",
        ]
    assert (len(first.record["xids"]), len(second.record["xids"])) == (0, 1)


def test_ranks_that_save_on_the_way_out_don_t_make_a_success_of_it(train, teller):
    """All end with 0 when they are asked to: the job is not whole."""
    lines = (
        "import signal",
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))",
        "if rank == '0': now.touch()",
        "time.sleep(60)",
    )
    run = train(script(*lines), command=teller(79, 1.0), **TWO)
    assert run.finish() == 75, run.err
    assert [end["status"] for end in run.record["ranks"]] == [0, 0]


@pytest.mark.parametrize(
    ("number", "hint"),
    [(31, "It is your kernel, not the machine"), (109, "It may be the machine")],
)
def test_a_rank_that_fails_is_told_what_came_before(train, teller, number, hint):
    """Its own error and status stay; the remedy begins with the XID."""
    lines = ("now.touch()", "time.sleep(1)", CUDA)
    run = train(script(*lines), command=teller(number))
    assert run.finish() == 1, run.err
    assert run.failure[0] == "RuntimeError: CUDA error: unspecified launch failure"
    assert run.failure[2].startswith(f"XID {number} on GPU 2: {hint}")


def test_a_failure_of_the_scripts_own_waits_no_longer_than_a_moment(train, teller):
    """Half a second, for what a GPU may have to say of it."""
    run = train(script("raise ValueError('bad label 7')"), command=teller(79))
    assert run.finish() == 1, run.err
    assert run.failure[0] == "ValueError: bad label 7"
    (end,) = run.record["ranks"]
    assert run.record["seconds"]["launch"] < 4
    assert run.record["xids"] == []
    assert end["status"] == 1
