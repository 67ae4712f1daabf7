import os
import select
import signal
import subprocess
import sys
import threading
import time

import pytest
from fake_nvml import H100, Library, Script, build_library
from fake_nvml.looking import command, install

from muster.check.gpu import watch
from muster.check.gpu.watch import Watch
from muster.check.gpu.xid import (
    APPLICATION,
    HARDWARE,
    NOTE,
    SUSPECT,
    XID,
    Event,
    classify,
    meaning,
)

UUID = "GPU-00000002-1111-2222-3333-444444444444"
FELL_OFF = [{"at": 0.3, "gpu": 2, "event": "8 79"}, {"at": 0.3, "gpu": 2, "lost": ""}]


@pytest.fixture
def watcher(tmp_path):
    """Return a function that starts a watcher on a script; what is left of it is stopped."""
    started: list[Watch] = []

    def start(script: Script) -> Watch:
        env = {**os.environ, **build_library(tmp_path / "nvml", script)}
        started.append(Watch(env, command("muster.check.gpu.watch")))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def take(one: Watch, timeout_s: float = 20.0):
    """Return the next events, or None when the watcher has ended."""
    deadline = time.monotonic() + timeout_s
    while (found := one.take()) == ():
        assert time.monotonic() < deadline
        select.select([one], [], [], 0.1)
    return found


def test_the_classes_don_t_overlap():
    """A number has one class; what nobody knows is noted."""
    classes = (HARDWARE, SUSPECT, APPLICATION, NOTE)
    assert len(frozenset().union(*classes)) == sum(map(len, classes))
    assert classify(9999) == "note"


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (79, "hardware", "Replace this instance"),
        (48, "hardware", "Replace this instance"),
        (119, "hardware", "Replace this instance"),
        (109, "suspect", "It may be the machine"),
        (46, "suspect", "It may be the machine"),
        (31, "application", "It is your kernel, not the machine"),
        (13, "application", "It is your kernel, not the machine"),
        (63, "note", ""),
        (150, "note", ""),
        (9999, "note", ""),
    ],
)
def test_what_an_xid_means(number, kind, said):
    """Only hardware says that the instance is to be replaced; a program's error says that it is not."""
    found = meaning(Event(2, UUID, XID, number, 0.0))
    assert found.kind == kind
    assert found.headline.startswith(f"XID {number}")
    assert found.headline.endswith(f"on GPU 2 ({UUID})")
    assert found.remedy.startswith(said)
    assert ("Replace this instance" in found.remedy) == (kind == "hardware")
    assert bool(found.remedy) == (kind != "note")


@pytest.mark.parametrize(
    ("kind", "number", "means"),
    [
        (0x400, 0, "note"),
        (0x800, 0, "hardware"),
        (0x4000, 0, "hardware"),
        (0x8000, 1, "note"),
        (0x2, 3, "note"),
    ],
)
def test_other_events(kind, number, means):
    """A GPU that can't be used any more is hardware, too; where NVML can't say which, none is named."""
    found = meaning(Event(-1, "", kind, number, 0.0))
    assert found.kind == means
    assert found.headline.endswith("on a GPU")


def test_an_xid_is_told_when_it_comes(watcher):
    """The watcher says whom it watches, then what has come, with the GPU that can no longer be asked."""
    one = watcher(Script.of(3, H100, then=FELL_OFF))
    began = time.time()
    (event,) = take(one)
    assert one.registered == (0, 1, 2)
    assert (event.index, event.uuid, event.type, event.number) == (2, UUID, XID, 79)
    assert began <= event.time <= time.time()
    assert meaning(event).headline.startswith("XID 79: the GPU has fallen off the bus on GPU 2")


def test_several_come_in_their_order(watcher):
    """Nothing is lost between two looks."""
    then = [{"at": 0.1, "gpu": 0, "event": "8 31"}, {"at": 0.2, "gpu": 1, "event": "8 48"}]
    one = watcher(Script.of(2, H100, then=then))
    found = []
    while len(found) < 2:
        found += take(one)
    assert [(event.index, event.number) for event in found] == [(0, 31), (1, 48)]


def test_a_stopped_watcher_is_gone(watcher):
    """Stopping takes no longer than a moment, twice does nothing more."""
    one = watcher(Script.of(1, H100))
    while not one.registered:
        one.take()
        select.select([one], [], [], 0.1)
    began = time.monotonic()
    one.stop()
    one.stop()
    assert time.monotonic() - began < 2
    assert one._process.returncode == -signal.SIGKILL


def test_a_wedged_driver_does_not_hold_the_harness(watcher):
    """Neither looking nor stopping waits for it."""
    one = watcher(Script.of(1, H100, host={"nvmlInitWithFlags": "hang"}))
    began = time.monotonic()
    assert one.take() == ()
    one.stop()
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    "script",
    [
        Script.of(1, H100, host={"nvmlInitWithFlags": "!9"}),
        Script.of(2, H100, {key: {"lost": ""} for key in range(2)}),
        Script.of(1, H100, {0: {"nvmlDeviceGetSupportedEventTypes": "1"}}),
    ],
    ids=["no-driver", "all-lost", "tells-of-nothing"],
)
def test_where_nothing_can_be_watched_the_watcher_ends(watcher, script):
    """The harness hears of that, and goes on without it."""
    one = watcher(script)
    assert take(one) is None
    assert one.registered == ()


def test_the_watcher_does_not_outlive_its_parent(tmp_path):
    """Whatever kills the harness: no process keeps the driver busy."""
    env = {**os.environ, **build_library(tmp_path / "nvml", Script.of(1, H100))}
    text = (
        "import subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE);"
        "p.stdout.readline(); print(p.pid, flush=True)"
    )
    words = [sys.executable, "-c", text, *command("muster.check.gpu.watch")]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=True)
    pid = int(done.stdout)
    deadline = time.monotonic() + 10
    while _runs(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_a_gpu_that_is_lost_is_not_watched_and_the_others_are():
    """The same without a process: nvidia-ml-py's own code, and a library that is Python."""
    told, over = [], threading.Event()

    def tell(line) -> None:
        told.append(line)
        if "number" in line:
            over.set()

    then = [{"at": 0, "gpu": 1, "lost": ""}, {"at": 0.05, "gpu": 0, "event": "8 13"}]
    nvml = install(Library(Script.of(2, H100, then=then)))
    nvml.nvmlInit()
    watch.wait(nvml, tell, lambda: not over.is_set(), {})
    assert told[0] == {"registered": [0]}
    assert (told[1]["index"], told[1]["number"]) == (0, 13)
    assert told[1]["uuid"] == "GPU-00000000-1111-2222-3333-444444444444"


@pytest.mark.parametrize(
    ("chosen", "watched"),
    [
        ("1", [1]),
        ("GPU-00000002", [2]),
        ("2,0", [2, 0]),
        ("", []),
        ("MIG-1", []),
    ],
)
def test_gpus_that_the_job_does_not_use_are_not_watched(chosen, watched):
    """What another program does on them must not end this job."""
    told = []
    nvml = install(Library(Script.of(3, H100)))
    nvml.nvmlInit()
    watch.wait(nvml, told.append, lambda: False, {"CUDA_VISIBLE_DEVICES": chosen})
    assert told == [{"registered": watched}]


@pytest.mark.parametrize(
    "change",
    [{"lost": ""}, {"nvmlDeviceGetMigMode": "!3"}],
    ids=["lost", "undivided"],
)
def test_what_a_gpu_does_not_tell_of_itself_hides_no_other(change):
    """One that is lost has no name; an older one can't be divided."""
    told = []
    nvml = install(Library(Script.of(3, H100, {0: change})))
    nvml.nvmlInit()
    watch.wait(nvml, told.append, lambda: False, {"CUDA_VISIBLE_DEVICES": "GPU-00000001"})
    assert told == [{"registered": [1]}]


def test_a_gpu_that_is_lost_while_it_is_watched(monkeypatch):
    """NVML may only say so, without an event: that is told, and ends the waiting."""
    told = []
    nvml = install(Library(Script.of(1, H100)))
    nvml.nvmlInit()

    def lost(*_):
        raise nvml.NVMLError(nvml.NVML_ERROR_GPU_IS_LOST)

    monkeypatch.setattr(nvml, "nvmlEventSetWait", lost)
    watch.wait(nvml, told.append, lambda: True, {})
    found = meaning(Event(**told[1]))
    assert found.kind == "hardware"
    assert found.headline == "hardware that can't be used any more (GPU_IS_LOST) on a GPU"
