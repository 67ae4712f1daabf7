import dataclasses
import os
import sys
import time

import pytest
from fake_nvml import H100, Script, build_library
from fake_nvml.looking import command

from muster.check.finding import Here
from muster.check.gpu import CHECKS, asking
from muster.check.gpu.asking import ask, look_at
from muster.check.running import Running
from muster.check.table import judge
from muster.settings import read_settings

NOTHING = ("/nowhere/program",)


@pytest.fixture
def here(make_job, tmp_path) -> Here:
    """Return a host with the driver's control device."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    return Here(make_job(), read_settings({}), {}, 1, "fast", dev=str(tmp_path / "dev"))


@pytest.fixture
def look(here, tmp_path):
    """Return a function that asks the C library about a script, in a process."""

    def run(script: Script, timeout_s: float = 30.0):
        env = {**os.environ, **build_library(tmp_path / "nvml", script)}
        host = dataclasses.replace(here, env=env)
        return ask(host, command("muster.check.gpu.probe"), timeout_s)

    return run


@pytest.mark.parametrize(
    ("env", "device", "why"),
    [
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, True, "NVIDIA_VISIBLE_DEVICES=void"),
        ({}, False, "there is no "),
    ],
    ids=["void", "no-device"],
)
def test_without_a_gpu_nothing_is_started(here, env, device, why):
    """A CPU job's checks of GPUs are all SKIP, and cost no process: this one would not even start."""
    host = dataclasses.replace(here, env=env, dev=here.dev if device else "/nowhere")
    found = ask(host, NOTHING)
    assert found.trouble.status == "SKIP"
    assert why in found.trouble.evidence


def test_on_a_host_without_a_gpu_every_check_is_a_skip(here, monkeypatch):
    """Not one is a PASS; none reads the instances or the manifest."""
    monkeypatch.setattr("subprocess.Popen", None)
    host = dataclasses.replace(here, dev="/nowhere")
    assert {check.look(host).status for check in CHECKS} == {"SKIP"}


def test_the_driver_is_asked_by_a_process(look):
    """All that the driver says comes back, by GPU."""
    found = look(Script.of(3, H100))
    assert found.trouble is None
    assert [gpu.index for gpu in found.gpus] == [0, 1, 2]
    assert (found.driver, found.cuda, found.count) == ("580.95.05", 13000, 3)


def test_a_driver_that_never_answers_costs_its_time_and_no_more(look):
    """The process is killed, and the look is UNKNOWN, never empty."""
    began = time.monotonic()
    found = look(Script.of(2, H100, host={"nvmlInitWithFlags": "hang"}), timeout_s=1.0)
    assert time.monotonic() - began < 5
    assert found.gpus == ()
    assert found.trouble.status == "UNKNOWN"
    assert found.trouble.evidence == "the driver has not answered within 1 s: init"


def test_what_was_told_before_a_call_that_hangs_counts(look):
    """The evidence says which GPU and which question; the GPUs before it are known."""
    changes = {1: {"nvmlDeviceGetRemappedRows": "hang"}}
    found = look(Script.of(3, H100, changes), timeout_s=2.0)
    assert [gpu.index for gpu in found.gpus] == [0]
    assert found.trouble.evidence == "the driver has not answered within 2 s: GPU 1, remapped"


def test_nothing_of_a_wedged_probe_is_left(here, tmp_path):
    """Its whole group is killed, with what it has started."""
    program = "import os, time; os.fork(); open(f'{os.getpid()}', 'x'); time.sleep(600)"
    os.makedirs(tmp_path / "pids")
    script = f"import os; os.chdir({str(tmp_path / 'pids')!r}); {program}"
    ask(here, (sys.executable, "-I", "-c", script), 1.5)
    pids = [int(name) for name in os.listdir(tmp_path / "pids")]
    assert len(pids) == 2
    deadline = time.monotonic() + 5
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    """Tell whether a process is there and no zombie: an orphan's is some other process's to reap."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


@pytest.mark.parametrize(
    ("script", "status", "evidence"),
    [
        (
            "raise SystemExit(3)",
            "SKIP",
            "this Python has no nvidia-ml-py; the images' harness has it",
        ),
        ("raise SystemExit(9)", "UNKNOWN", "the look at the GPUs ended with status 9: start"),
        (
            'print(\'{"asking": [4, "memory"]}\'); import os, sys; sys.stdout.flush(); os.kill(os.getpid(), 11)',
            "UNKNOWN",
            "the look at the GPUs ended with status -11: GPU 4, memory",
        ),
        (
            'print(\'{"host": {"init": {"error": "LibraryNotFound"}}}\'); print(\'{"done": true}\')',
            "SKIP",
            "there is no libnvidia-ml.so.1: the container got the GPUs without `utility`",
        ),
        (
            'print(\'{"host": {"init": {"error": "DriverNotLoaded"}}}\'); print(\'{"done": true}\')',
            "UNKNOWN",
            "NVML can't begin: DriverNotLoaded",
        ),
        (
            'print(\'{"host": {"init": 1, "count": {"error": "Unknown"}}}\'); print(\'{"done": true}\')',
            "UNKNOWN",
            "NVML can't count GPUs: Unknown",
        ),
        ("print('[1]\\n{\"done')", "UNKNOWN", "the look at the GPUs ended with status 0: start"),
    ],
    ids=["no-module", "breaks", "crashes", "no-library", "no-driver", "no-count", "cut-off"],
)
def test_a_look_that_fails(here, script, status, evidence):
    """What is not there is a SKIP; what could not be looked at is UNKNOWN, with the reason."""
    found = ask(here, (sys.executable, "-I", "-c", script))
    assert (found.trouble.status, found.trouble.evidence) == (status, evidence)


def test_a_probe_that_can_not_be_started_is_no_end_of_a_job(here, monkeypatch):
    """It is UNKNOWN, as everything that breaks in a check."""
    monkeypatch.setattr(asking, "ask", lambda host: ask(host, NOTHING))
    (found,) = Running(CHECKS[:1], here, {}).results()
    assert (found.name, found.status) == ("gpu.nvml", "UNKNOWN")
    assert "No such file" in found.evidence


def test_all_checks_share_one_look(here, monkeypatch):
    """The driver is asked once."""
    asked = []
    monkeypatch.setattr(asking, "ask", lambda host: asked.append(host) or asking.Look())
    assert look_at(here) is look_at(here)
    assert asked == [here]


@pytest.fixture
def run_all(here, tmp_path, monkeypatch):
    """Return a function that runs every check of GPUs on the C library, as a host of a job does."""
    host = dataclasses.replace(
        here, job=dataclasses.replace(here.job, instance_type="ml.p5.48xlarge")
    )

    def run(script: Script):
        env = {**os.environ, **build_library(tmp_path / "nvml", script)}
        probe = command("muster.check.gpu.probe")
        monkeypatch.setattr(asking, "ask", lambda one: ask(one, probe, 2.0))
        return Running(CHECKS, dataclasses.replace(host, env=env), {}).results()

    return run


def test_a_well_host(run_all):
    """All checks together, with a driver: nothing is worse than a SKIP."""
    found = {one.name: one for one in run_all(Script.of(8, H100))}
    assert {one.status for one in found.values()} == {"PASS", "SKIP"}
    assert found["gpu.count"].status == found["gpu.ecc"].status == "PASS"


@pytest.mark.parametrize(
    ("script", "name"),
    [
        (Script.of(7, H100), "gpu.count"),
        (Script.of(8, H100, {2: {"lost": ""}}), "gpu.lost"),
        (Script.of(8, H100, {3: {"nvmlDeviceGetTotalEccErrors.1.0": "5"}}), "gpu.ecc"),
    ],
    ids=["fewer", "lost", "ecc"],
)
def test_one_fault_is_one_fail(run_all, script, name):
    """The job's verdict names the host and this check, and no other check fails with it."""
    verdict = judge({"algo-1": run_all(script)})
    assert (verdict.host, verdict.result.name, verdict.others) == ("algo-1", name, 0)


def test_a_wedged_driver_ends_no_job(run_all):
    """No check is a PASS then, none a FAIL, and all are there when the look's time is over."""
    began = time.monotonic()
    found = run_all(Script.of(8, H100, {0: {"nvmlDeviceGetRemappedRows": "hang"}}))
    assert time.monotonic() - began < 6
    assert {one.status for one in found} == {"UNKNOWN"}
    assert len(found) == len(CHECKS)
