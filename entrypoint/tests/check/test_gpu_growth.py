import dataclasses
import functools
import os
import time

import pytest
from fake_nvml import A100, H100, Script, build_library
from fake_nvml.looking import command

from muster.check.finding import Here
from muster.check.gpu import asking
from muster.check.gpu.growth import grown, snapshot
from muster.settings import read_settings

COUNTERS = "nvmlDeviceGetNvLinkErrorCounter"


@pytest.fixture
def here(make_job, tmp_path, monkeypatch) -> Here:
    """Return a host with the driver's control device."""
    monkeypatch.setattr(asking, "PROBE", command("muster.check.gpu.probe"))
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    return Here(make_job(), read_settings({}), {}, 1, "full", dev=str(tmp_path / "dev"))


@pytest.fixture
def see(here, tmp_path):
    """Return a function that takes a snapshot of a scripted driver."""

    def run(script: Script, timeout_s: float = 30.0, **env: str):
        own = {**os.environ, **build_library(tmp_path / "nvml", script), **env}
        return snapshot(dataclasses.replace(here, env=own), timeout_s)

    return run


def four(kind=A100, **counters: str) -> Script:
    """Return four GPUs; `gpu2="1 0 0"` are the third one's replays, recoveries and wrong checksums."""
    changes = {int(name[3:]): {COUNTERS: value} for name, value in counters.items()}
    return Script.of(4, kind, changes)


@pytest.mark.parametrize(
    ("before", "after", "status", "evidence"),
    [
        ("4 4 4", "4 4 4", "PASS", "all 4 GPUs: NVLink in 10 s: 0 replays"),
        ("4 4 4", "5 4 4", "WARN", "GPU 2 (GPU-00000002"),
        ("4 4 4", "4 4 2000", "FAIL", "1996 wrong checksums"),
    ],
)
def test_what_has_grown_between_two_looks(see, before, after, status, evidence):
    """One GPU's links decide, and it is named; the others count from their own values."""
    first, then = see(four(gpu2=before, gpu1="9 9 9")), see(four(gpu2=after, gpu1="9 9 9"))
    if status == "PASS":
        first = then = see(four())
    found = grown(first, then, 10.0)
    assert found.status == status
    assert evidence in found.evidence


def test_only_what_is_needed_is_asked(see):
    """Twice in a job's start: what hangs elsewhere in a driver doesn't matter here."""
    script = Script.of(2, A100, {1: {"nvmlDeviceGetRemappedRows": "hang"}})
    found = see(script, 30.0)
    assert found.trouble is None
    assert found.gpus[1].link_errors == (0, 0, 0)
    assert found.gpus[1].fabric == asking.NOT_ASKED


def test_gpus_that_the_job_does_not_use(see):
    """Their links are none of its."""
    look = functools.partial(see, CUDA_VISIBLE_DEVICES="0,1")
    assert grown(look(four()), look(four(gpu2="99 0 0")), 10.0).status == "PASS"
    assert grown(look(four()), look(four(gpu1="99 0 0")), 10.0).status == "WARN"


def test_gpus_without_the_counters(see):
    """A SKIP, never a PASS."""
    script = Script.of(2, {name: value for name, value in H100.items() if name != COUNTERS})
    assert grown(see(script), see(script), 10.0).status == "SKIP"


@pytest.mark.parametrize("which", ["before", "after"])
def test_a_wedged_driver_is_unknown(see, which):
    """It costs its time and no more, at either look."""
    good = see(four())
    began = time.monotonic()
    wedged = see(Script.of(4, A100, host={"nvmlInitWithFlags": "hang"}), 1.0)
    assert time.monotonic() - began < 5
    looks = (wedged, good) if which == "before" else (good, wedged)
    assert grown(*looks, 10.0).status == "UNKNOWN"


def test_on_hosts_without_a_gpu_nothing_is_started(here, monkeypatch):
    """The finding is a SKIP."""
    monkeypatch.setattr("subprocess.Popen", None)
    found = snapshot(dataclasses.replace(here, dev="/nowhere"))
    assert grown(found, found, 10.0).status == "SKIP"
