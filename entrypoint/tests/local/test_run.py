import contextlib
import json
import os
import signal

import pytest

from muster.local import run as module
from muster.local.folders import LocalHost, make_hosts
from muster.local.options import parse
from muster.local.summary import print_summary
from muster.model import Cause


class FakeRun:
    """A host that ends when it is asked, with a record as a harness writes it."""

    launcher = "torchrun"

    def __init__(self, host: LocalHost, cause: Cause, inbox: "FakeInbox") -> None:
        self.host = host
        self._cause = cause
        self._inbox = inbox
        self._status: int | None = None

    def poll(self) -> int | None:
        return self._status

    def stop(self, _number: int) -> None:
        self.end()

    def end(self) -> None:
        os.makedirs(self.host.paths.record, exist_ok=True)
        told = {name: getattr(self._cause, name) for name in ("headline", "kind", "host", "rank")}
        with open(f"{self.host.paths.record}/run-{self.host.name}.json", "w") as file:
            json.dump({"launcher": self.launcher, "cause": told}, file)
        self._end_with(self._cause.status)

    def kill(self) -> None:
        self._end_with(137)

    def _end_with(self, status: int) -> None:
        self._status = status
        self._inbox.put(signal.SIGCHLD)


class FakeInbox:
    """Signals that a test puts in."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK)

    def open(self) -> None:
        pass

    def fileno(self) -> int:
        return self._read

    def put(self, number: int) -> None:
        os.write(self._write, bytes([number]))

    def read(self) -> list[int]:
        with contextlib.suppress(BlockingIOError):
            return list(os.read(self._read, 4096))
        return []


@pytest.fixture
def summary(tmp_path, monkeypatch, capsys):
    """Return a function that runs two hosts, of which the second has a cause, to the summary's text."""
    (tmp_path / "train.py").touch()
    inbox = FakeInbox()
    monkeypatch.setattr(module, "Inbox", lambda: inbox)

    def run(cause: Cause, *numbers: int) -> str:
        options = parse([str(tmp_path / "train.py"), "--hosts", "2"])
        hosts = make_hosts(options, str(tmp_path / "out"))
        runs = [FakeRun(host, cause, inbox) for host in hosts]

        class Backend:
            @staticmethod
            @contextlib.contextmanager
            def start(*_):
                for number in numbers:
                    inbox.put(number)
                if not numbers:
                    for each in runs:
                        each.end()
                yield runs

        ends = module.run_hosts(Backend, options, hosts, {})
        print_summary(ends, str(tmp_path / "out"))
        return " ".join(capsys.readouterr().out.replace("│", " ").split())

    return run


STOPPED = Cause("the script was stopped by SIGTERM (signal 15)", "signal", 143, "algo-2", 1)
BROKEN = Cause("ValueError: no room", "user", 1, "algo-2", 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_from_outside_is_no_hosts_fault(summary, number):
    """Neither host ends because of the other: somebody has stopped `muster local`."""
    told = summary(STOPPED, number)
    assert f"stopped from outside by {signal.Signals(number).name}" in told
    assert "algo-1 143" in told
    assert "because of" not in told
    assert told.count("the script was stopped by") == 1


def test_hosts_that_were_killed_after_a_second_signal(summary, monkeypatch):
    """They have written no record, and nobody asks for one."""
    monkeypatch.setattr(FakeRun, "stop", lambda *_: None)
    told = summary(STOPPED, signal.SIGINT, signal.SIGINT)
    assert told.count("137") == 2
    assert "stopped from outside by SIGINT" in told
    assert "no record" not in told


def test_a_script_that_breaks_when_it_is_stopped(summary):
    """Its own error stays its host's."""
    told = summary(BROKEN, signal.SIGTERM)
    assert "rank 1: ValueError: no room" in told
    assert "ended because of algo-2" in told
    assert "stopped from outside by SIGTERM" in told


def test_a_signal_that_nobody_has_sent_to_us(summary):
    """A host that was stopped by itself is told as such."""
    told = summary(STOPPED)
    assert "ended because of algo-2" in told
    assert "outside" not in told


@pytest.mark.parametrize(("launcher", "is_rank"), [("torchrun", True), ("cluster", False)])
def test_a_script_that_is_no_rank(summary, monkeypatch, launcher: str, is_rank: bool):
    """The launcher cluster's script starts ranks: its own end is not that of a rank."""
    monkeypatch.setattr(FakeRun, "launcher", launcher)
    told = summary(Cause("the script ended with status 3", "user", 3, "algo-2", 1))
    assert "the script ended with status 3" in told
    assert ("rank 1: " in told) == is_rank
