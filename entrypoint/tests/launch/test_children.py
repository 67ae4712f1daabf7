"""Starting the launcher and reaping orphans, in a process of its own: it owns all its children."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, sys, time
from muster.launch import children
from muster.launch.streams import LogPump
from muster.model import Plan

pump = LogPump()
pump.start()
children.adopt_orphans()
plan = Plan("torchrun", "algo-1", ("algo-1",), 0, 1, 1, "127.0.0.1", 7777,
            tuple(sys.argv[1:]), "/", {}, {})
launcher = children.start_launcher(plan, {"MINE": "yes"}, pump)
deadline = time.monotonic() + 10
while time.monotonic() < deadline:
    children.reap_orphans(launcher.processes)
    left = open(f"/proc/self/task/{os.getpid()}/children").read().split()
    if launcher.ended and not left:
        break
    time.sleep(0.01)
pump.drain(5)
pump.close()
print(json.dumps([launcher.code, left, launcher.tail]))
"""


@pytest.fixture
def run(clean_env):
    """Return a function that runs a shell script as the launcher: its output and what was seen."""

    def run_it(script: str) -> tuple[list[str], list]:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "/bin/sh", "-c", script],
            env=clean_env,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        *out, seen = done.stdout.splitlines()
        return out, json.loads(seen)

    return run_it


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9)])
def test_the_launchers_own_code(run, script: str, code: int):
    """A launcher's code is exact, though its orphans are reaped beside it."""
    _, (returned, left, _) = run(script)
    assert (returned, left) == (code, [])


def test_orphans_are_reaped(run):
    """What a launcher leaves behind is adopted, and no zombie of it stays."""
    _, (returned, left, _) = run("(sleep 0.2; exit 3) & (exit 4) & exit 7")
    assert (returned, left) == (7, [])


def test_its_output_has_its_label(run):
    """A launcher's own lines are in the log, labelled with host and launcher, and kept."""
    out, (_, _, tail) = run("echo out; echo err >&2")
    assert out == ["[algo-1 torchrun] out"]
    assert tail == ["err"]


def test_what_it_inherits(run):
    """A launcher has the given environment, no input, and a session of its own."""
    out, _ = run(
        "echo $MINE; readlink /proc/self/fd/0; read x y z p g s r < /proc/$$/stat; echo $s $$"
    )
    mine, stdin, sid = [line.removeprefix("[algo-1 torchrun] ") for line in out]
    assert (mine, stdin) == ("yes", "/dev/null")
    session, pid = sid.split()
    assert session == pid
