import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from muster.launch.proc import field, processes
from muster.launch.shells import signal_with_children
from muster.launch.stragglers import Stragglers

PATIENCE_S = 10


def test_processes_and_fields():
    """This process is among them, with its parent and group; a field is found by its name."""
    (me,) = [process for process in processes() if process.pid == os.getpid()]
    assert (me.parent, me.group) == (os.getppid(), os.getpgid(0))
    assert int(field(os.getpid(), "status", "PPid")) == os.getppid()
    assert field(os.getpid(), "status", "NoSuchField") == ""
    assert field(2**22 + 1, "status", "PPid") == ""


@pytest.fixture
def group(tmp_path):
    """Return a function that starts a command in a process group of its own."""
    started = []

    def start(*command: str) -> subprocess.Popen:
        process = subprocess.Popen(command, start_new_session=True, cwd=tmp_path)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_who_works_and_who_only_exists(group, monkeypatch):
    """A process that writes is at work for as long as it does; one that sleeps is not for long."""
    monkeypatch.setattr("muster.launch.stragglers._IDLE_S", 1.0)
    sleeps = group("sleep", "60")
    writes = group("sh", "-c", "while true; do echo x >> out; sleep 0.1; done")
    watched = Stragglers([sleeps.pid, writes.pid])
    assert {sleeps.pid, writes.pid} <= set(watched.working())
    deadline = time.monotonic() + PATIENCE_S
    while sleeps.pid in watched.working() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert sleeps.pid not in watched.working()
    assert writes.pid in watched.working()
    excluded = Stragglers([], excluded=[sleeps.pid, writes.pid])
    assert not {sleeps.pid, writes.pid} & set(excluded.working())


SHELL = shutil.which("bash") or "sh"


@pytest.mark.parametrize(
    ("number", "trap", "shell_dies"),
    [
        (signal.SIGTERM, "", True),
        (signal.SIGUSR1, "", False),
        (signal.SIGUSR1, "trap 'exit 3' USR1;", True),
    ],
)
def test_a_shell_and_its_children(group, tmp_path, number, trap, shell_dies):
    """A shell's child gets the signal; the shell as well, unless it would only die of it."""
    child = f"trap 'echo got >> {tmp_path}/got; exit 0' {signal.Signals(number).name[3:]}; touch ready; while true; do sleep 0.1; done"
    shell = group(SHELL, "-c", f'{trap} {SHELL} -c "{child}"; touch after; sleep 60')
    deadline = time.monotonic() + PATIENCE_S
    while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    signal_with_children(shell.pid, number)
    ended = tmp_path / "got"
    while not ended.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert ended.read_text() == "got\n"
    if shell_dies:
        shell.wait(PATIENCE_S)
    else:
        while not (tmp_path / "after").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert (tmp_path / "after").exists()
        assert shell.poll() is None


def test_a_process_that_is_no_shell(group, tmp_path):
    """A program's own children are its own business."""
    script = "import subprocess; p = subprocess.Popen(['sleep', '60']); open('pid', 'w').write(str(p.pid)); p.wait()"

    process = group(sys.executable, "-c", script)
    deadline = time.monotonic() + PATIENCE_S
    path = tmp_path / "pid"
    while not (path.exists() and path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    signal_with_children(process.pid, signal.SIGTERM)
    process.wait(PATIENCE_S)
    os.kill(int(path.read_text()), signal.SIGKILL)
    with pytest.raises(ProcessLookupError):
        signal_with_children(process.pid, signal.SIGTERM)
