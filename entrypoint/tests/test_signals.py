import os
import signal
import subprocess
import sys

import pytest

EARLY = """
import os, sys
from muster.signals import catch_early
from muster.errors import StopRequested
catch_early()
try:
    try:
        os.kill(os.getpid(), int(sys.argv[1]))
    except Exception:
        print("swallowed")
except StopRequested as stop:
    print("stop", stop.signum)
"""

INBOX = """
import os, select, signal
from muster.signals import Inbox
inbox = Inbox()
inbox.open()
print(inbox.read())
for name in ("SIGUSR1", "SIGTERM", "SIGINT", "SIGUSR2"):
    os.kill(os.getpid(), getattr(signal, name))
print([signal.Signals(number).name for number in inbox.read()])
print(inbox.read())
if os.fork() == 0:
    os._exit(0)
print(select.select([inbox], [], [], 10)[0] == [inbox])
print([signal.Signals(number).name for number in inbox.read()])
"""


def run(code: str, env: dict[str, str], *words: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_early_stop(clean_env, number: int):
    """Before the ranks run, a stopping signal is an exception that no `except Exception` eats."""
    assert run(EARLY, clean_env, str(int(number))) == [f"stop {int(number)}"]


def test_the_inbox(clean_env):
    """Later signals are collected in order, end nothing, and wake a selector; SIGCHLD too."""
    assert run(INBOX, clean_env) == [
        "[]",
        "['SIGUSR1', 'SIGTERM', 'SIGINT', 'SIGUSR2']",
        "[]",
        "True",
        "['SIGCHLD']",
    ]


def test_this_process_is_untouched():
    """Importing the module changes no handler: only opening the inbox does."""
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert os.getpid() > 1
