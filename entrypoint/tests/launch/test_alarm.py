import os
import selectors
import time

import pytest

from muster.check.gpu.xid import XID, Event
from muster.launch import alarm as module
from muster.launch.alarm import Alarm, set_alarm
from muster.settings import read_settings


class FakeWatch:
    """A watcher that tells what it is given."""

    def __init__(self) -> None:
        self.registered = (0, 1)
        self.processes = {}
        self.stopped = 0
        self._told = []
        self._read, self._write = os.pipe()

    def tell(self, *numbers: int | None) -> None:
        """Tell of XIDs on GPU 1; None for the end."""
        self._told += [None if n is None else Event(1, "GPU-1", XID, n, 5.0) for n in numbers]
        os.write(self._write, b".")

    def fileno(self) -> int:
        return self._read

    def take(self):
        os.read(self._read, 1)
        told, self._told = self._told, []
        return None if told == [None] else tuple(told)

    def stop(self) -> None:
        self.stopped += 1
        os.close(self._read)
        os.close(self._write)


@pytest.fixture
def said(monkeypatch):
    """Return the lines that are logged."""
    lines: list[str] = []
    monkeypatch.setattr(module, "say", lines.append)
    return lines


@pytest.fixture
def watched():
    """Return a function that makes an alarm, and one that waits for what it is told."""
    with selectors.DefaultSelector() as selector:

        def turn() -> bool:
            ready = selector.select(0)
            for key, _ in ready:
                key.data()
            return bool(ready)

        def make(severity: str = ""):
            watcher = FakeWatch()
            alarm = Alarm(watcher, severity)
            alarm.watch(selector)
            return alarm, watcher, turn

        yield make


def test_each_event_is_logged_once_and_kept(watched, said):
    """In the order in which they came, with what they mean."""
    alarm, watcher, turn = watched()
    watcher.tell(31, 63)
    assert turn()
    assert not turn()
    assert said == [
        "XID 31: an access to memory that isn't there on GPU 1 (GPU-1)",
        "XID 63: a row of memory replaced on GPU 1 (GPU-1)",
    ]
    kept = [(one["host"], one["number"], one["class"]) for one in alarm.record("algo-2")]
    assert kept == [("algo-2", 31, "application"), ("algo-2", 63, "note")]
    assert alarm.fatal is None


@pytest.mark.parametrize(("severity", "ends"), [("", True), ("warn", False)])
def test_hardware_is_fatal_unless_the_user_goes_on(watched, said, severity, ends):
    """It is logged either way."""
    alarm, watcher, turn = watched(severity)
    watcher.tell(79)
    turn()
    assert bool(alarm.fatal) is ends
    assert len(said) == 1


def test_a_flood_is_cut_and_hides_no_broken_hardware(watched, said):
    """A program may make thousands; the log and the record stay small."""
    alarm, watcher, turn = watched()
    watcher.tell(*[13] * 5000)
    turn()
    watcher.tell(*[13] * 5000, 79)
    turn()
    assert alarm.fatal
    assert alarm.fatal.event.number == 79
    assert len(alarm.xids) == 101
    assert len(said) == 102
    assert "not shown" in said[100]


def test_a_watcher_that_ends_is_let_go_with_one_line(watched, said):
    """Nothing waits for it any more."""
    alarm, watcher, turn = watched()
    watcher.tell(None)
    assert turn()
    assert said == ["gpu.xid: XID errors are no longer watched: NVML tells of none"]
    assert watcher.stopped == 1
    assert not turn()
    alarm.expect()
    assert alarm.next_due() is None
    alarm.close()
    assert watcher.stopped == 1


def test_a_watcher_that_never_began(watched, said):
    """The same, in other words."""
    _, watcher, turn = watched()
    watcher.registered = ()
    watcher.tell(None)
    turn()
    assert said == ["gpu.xid: XID errors are not watched: NVML tells of none"]


def test_a_lost_gpu_ends_the_watching_and_is_said_once(watched, said):
    """What is known ends the job: that nothing more is told needs no line."""
    _, watcher, turn = watched()
    watcher.tell(79)
    turn()
    watcher.tell(None)
    turn()
    assert len(said) == 1


def test_what_is_behind_a_failure_has_its_time(watched):
    """Half a second from the first failure on; not once it is known."""
    alarm, watcher, turn = watched()
    assert alarm.next_due() is None
    before = time.monotonic()
    alarm.expect()
    due = alarm.next_due()
    assert due
    assert before + 0.4 < due < before + 1
    alarm.expect()
    assert alarm.next_due() == due
    watcher.tell(31)
    turn()
    assert alarm.next_due() == due
    watcher.tell(79)
    turn()
    assert alarm.next_due() is None


def test_the_wait_for_it_ends(watched, monkeypatch):
    """A failure that no GPU has made is not held for longer."""
    monkeypatch.setattr(module, "_AWAIT_S", 0.01)
    alarm, _, _ = watched()
    alarm.expect()
    time.sleep(0.02)
    assert alarm.next_due() is None


def test_closing_stops_the_watcher_once(watched):
    """Twice does nothing more."""
    alarm, watcher, turn = watched()
    alarm.close()
    alarm.close()
    assert watcher.stopped == 1
    assert not turn()


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """Return a folder for device files with a driver's, and the watchers that were started."""
    started = []

    def watch(env):
        started.append(env)
        return FakeWatch()

    monkeypatch.setattr("muster.check.gpu.watch.Watch", watch)
    (tmp_path / "nvidiactl").touch()
    return str(tmp_path), started


def test_where_there_is_a_gpu_it_is_watched(gpu):
    """With the job's own variables."""
    dev, started = gpu
    alarm = set_alarm(read_settings({}), {"CUDA_VISIBLE_DEVICES": "1"}, dev)
    assert started == [{"CUDA_VISIBLE_DEVICES": "1"}]
    alarm.close()


@pytest.mark.parametrize(
    ("settings", "env"),
    [
        ({"MUSTER_CHECKS": "gpu.xid=off"}, {}),
        ({"MUSTER_CHECK": "off"}, {}),
        ({}, {"NVIDIA_VISIBLE_DEVICES": "void"}),
    ],
)
def test_where_it_is_not_wanted_nothing_is_started(gpu, settings, env):
    """Nor where the container has none."""
    dev, started = gpu
    alarm = set_alarm(read_settings(settings), env, dev)
    assert started == []
    alarm.expect()
    assert (alarm.next_due(), alarm.record("algo-1"), alarm.processes) == (None, (), {})
    alarm.close()


def test_hosts_without_a_driver_start_nothing(gpu, tmp_path):
    """A host's missing control device decides, and costs a look for a file."""
    assert set_alarm(read_settings({}), {}, str(tmp_path / "none")).processes == {}
    assert gpu[1] == []


def test_a_watcher_that_cannot_be_started_holds_no_job(gpu, monkeypatch, said):
    """One line says so."""

    def refuse(_env):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("muster.check.gpu.watch.Watch", refuse)
    set_alarm(read_settings({}), {}, gpu[0]).close()
    assert said == ["gpu.xid: XID errors are not watched: Cannot allocate memory"]
