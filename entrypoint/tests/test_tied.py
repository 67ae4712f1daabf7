import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from muster import tied

TIED = (sys.executable, "-I", "-S", tied.__file__)
STARTER = """
import os, subprocess, sys, time
tied = subprocess.Popen([*sys.argv[1:], str(os.getpid()), "/bin/sleep", "60"], start_new_session=True)
while open(f"/proc/{tied.pid}/comm").read() != "sleep\\n":
    time.sleep(0.01)
print(tied.pid, flush=True)
time.sleep(60)
"""


def ended(pid: int) -> bool:
    """Whether nothing of a process is left but what a parent has yet to read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split()[2] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_starter(number):
    """Whatever ends the starter: in a session of its own it would stay for ever."""
    words = [sys.executable, "-c", STARTER, *TIED]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert not ended(pid)
        starter.send_signal(number)
        starter.wait(10)
    deadline = time.monotonic() + 10
    while not ended(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ended(pid)


def test_a_starter_that_has_gone_already():
    """The command is not begun: the kernel tells of a death that comes, not of one that was."""
    another = os.getppid()
    done = subprocess.run(
        [*TIED, str(another), "/bin/echo", "begun"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")


def test_the_command_takes_its_place():
    """With its words as they are, and its status."""
    words = [*TIED, str(os.getpid()), "/bin/sh", "-c", 'echo "$1"; exit 7', "sh", "a b"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, "a b\n")
