"""Stops and what the scripts leave behind: who is told, when, and who gets time.

Case 82 is about mpirun: tests/cluster/test_mpi.py has it.
"""

from __future__ import annotations

import signal
import time

import pytest

PLAIN = {"MUSTER_LAUNCHER": "plain"}
TWO = {"MUSTER_LAUNCHER": "torchrun", "MUSTER_NPROC": "2"}
READY = (
    "open(os.environ['SM_MODEL_DIR'] + f'/ready-{os.environ.get(\"RANK\", \"0\")}', 'w').close()"
)

TIMES = f"""
import os, signal, sys, time
model = os.environ["SM_MODEL_DIR"]
def note(number, frame):
    with open(f"{{model}}/at-{{os.environ['RANK']}}", "w") as file:
        file.write(str(time.time()))
    sys.exit(0)
signal.signal(signal.SIGTERM, note)
{READY}
while True:
    time.sleep(0.001)
"""


def test_case_080_every_rank_hears_of_a_stop_at_once(train):
    """SIGTERM reaches the script of each rank within 0.2 s."""
    run = train(TIMES, **TWO)
    for rank in range(2):
        run.wait_for_file(f"ready-{rank}")
    sent = time.time()
    run.signal()
    assert run.finish() == 0, run.err
    heard = [float((run.base / "model" / f"at-{rank}").read_text()) for rank in range(2)]
    assert max(heard) - sent < 0.2


LOADER = f"""
import os, signal, sys, time, torch
from torch.utils.data import DataLoader, Dataset

model = os.environ["SM_MODEL_DIR"]

class Data(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        time.sleep(0.01)
        return torch.tensor(float(i))

def heard(number, frame):
    if os.path.exists(f"{{model}}/complete"):
        os._exit(0)  # The loader's own way to end its workers.
    open(f"{{model}}/worker-was-signalled", "w").close()

stopped = []

def begin(worker):
    signal.signal(signal.SIGTERM, heard)

if __name__ == "__main__":
    batches = iter(DataLoader(Data(), batch_size=4, num_workers=2, worker_init_fn=begin))
    next(batches)
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    {READY}
    while not stopped:
        next(batches)
    with open(f"{{model}}/checkpoint", "w") as file:
        for part in range(int(sys.argv[1])):
            file.write("x" * 1000)
            file.flush()
            next(batches)  # The workers must still be there.
            time.sleep(1)
    open(f"{{model}}/complete", "w").close()
"""


def test_case_081_a_long_save_is_not_cut_short(train, request):
    """A script with two data-loader workers saves for longer than torchrun's own 30 s, ends with
    0 and a whole file; its workers were not signalled. In make test-full it saves for 60 s."""
    full = request.config.getoption("--hypothesis-profile") == "full"
    seconds = 60 if full else 33
    run = train(LOADER, str(seconds), MUSTER_LAUNCHER="torchrun")
    run.wait_for_file("ready-0", timeout=60)
    run.signal()
    assert run.finish(timeout=seconds + 60) == 0, run.err
    model = run.base / "model"
    assert (model / "checkpoint").stat().st_size == seconds * 1000
    assert (model / "complete").exists()
    assert not (model / "worker-was-signalled").exists()


HANDS_OVER = f"""
import os, signal, sys, time
model = os.environ["SM_MODEL_DIR"]
def hand_over(number, frame):
    if os.fork() == 0:
        os.setsid()
        for part in range(20):
            with open(model + "/checkpoint", "a") as file:
                file.write("x" * 1000)
            time.sleep(0.1)
        open(model + "/complete", "w").close()
        os._exit(0)
    sys.exit(0)
signal.signal(signal.SIGTERM, hand_over)
{READY}
while True:
    time.sleep(1)
"""


@pytest.mark.parametrize("launcher", ["plain", "torchrun"])
def test_case_083_a_helper_that_still_saves_gets_the_time(train, launcher):
    """The script hands its checkpoint to a process of its own and ends: the job waits for it."""
    run = train(HANDS_OVER, MUSTER_LAUNCHER=launcher)
    run.wait_for_file("ready-0")
    run.signal()
    assert run.finish() == 0, run.err
    assert (run.base / "model" / "complete").exists()
    assert (run.base / "model" / "checkpoint").stat().st_size == 20_000
    assert "the ranks are over; what they have left running has" in run.err


IDLE = f"""
import os, subprocess, signal, sys, time
subprocess.Popen(["sleep", "600"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
{READY}
while True:
    time.sleep(1)
"""


@pytest.mark.parametrize("launcher", ["plain", "torchrun"])
def test_case_083_a_helper_that_only_exists_does_not_hold_a_stop(train, launcher):
    """A leftover that does nothing for 5 s is ended, and the status is the script's."""
    run = train(IDLE, MUSTER_LAUNCHER=launcher)
    run.wait_for_file("ready-0")
    started = time.monotonic()
    run.signal()
    assert run.finish() == 7, run.err
    assert time.monotonic() - started < 15


@pytest.mark.parametrize("code", [0, 5])
@pytest.mark.parametrize("launcher", ["plain", "torchrun"])
def test_case_094_a_leftover_does_not_hold_a_job_that_has_ended(train, launcher, code):
    """Without a stop the script's status comes within 5 s of its end, whoever holds its output."""
    script = f"""
        import os, subprocess, sys
        subprocess.Popen(["sleep", "600"])
        open(os.environ["SM_MODEL_DIR"] + "/ended", "w").close()
        sys.exit({code})
    """
    run = train(script, MUSTER_LAUNCHER=launcher)
    run.wait_for_file("ended")
    started = time.monotonic()
    assert run.finish() == code, run.err
    assert time.monotonic() - started < 5


SHELL = """#!/bin/bash
python3 - <<'END'
import os, signal, sys, time
model = os.environ["SM_MODEL_DIR"]
got = []
def note(number, frame):
    got.append(number)
    with open(f"{model}/got", "w") as file:
        file.write(" ".join(map(str, got)))
    if number == signal.SIGTERM:
        time.sleep(1)
        open(f"{model}/saved", "w").close()
        sys.exit(0)
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, note)
open(f"{model}/ready-0", "w").close()
while True:
    time.sleep(0.1)
END
"""


def test_case_080_a_shells_program_hears_of_a_stop(train):
    """Below a shell script the program gets the signal too, once, and the time to save."""
    run = train(SHELL, name="run.sh", **PLAIN)
    run.wait_for_file("ready-0")
    run.signal()
    assert run.finish() == 143, run.err  # The shell's own end.
    model = run.base / "model"
    assert (model / "saved").exists()
    assert (model / "got").read_text() == str(int(signal.SIGTERM))


def test_case_080_a_signal_of_the_users_own_passes_a_shell(train):
    """SIGUSR1 reaches the program below a shell, which would die of it itself."""
    run = train(SHELL, name="run.sh", **PLAIN)
    run.wait_for_file("ready-0")
    run.signal(signal.SIGUSR1)
    got = run.wait_for_file("got")
    deadline = time.monotonic() + 10
    while not got.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert got.read_text() == str(int(signal.SIGUSR1))
    assert run.process.poll() is None
    run.signal()
    assert run.finish() == 143, run.err


def test_case_080_ranks_that_do_not_end_are_named(train):
    """The failure text says which ranks had to be killed."""
    script = f"""
        import os, signal, sys, time
        stubborn = os.environ["RANK"] == "1"
        signal.signal(signal.SIGTERM, signal.SIG_IGN if stubborn else lambda *_: sys.exit(0))
        {READY}
        while True:
            time.sleep(0.1)
    """
    run = train(script, MUSTER_STOP_GRACE_S="2", **TWO)
    for rank in range(2):
        run.wait_for_file(f"ready-{rank}")
    run.signal()
    assert run.finish() == 137, run.err
    assert run.failure[0] == (
        "rank 1 did not end within 2 s of SIGTERM (signal 15) and had to be killed"
    )
    assert "rank=1 status=137" in run.failure[1]


def test_a_failed_container_can_be_held_for_a_look(train):
    """MUSTER_HOLD_S keeps it, with the failure file written; a stop ends the wait at once."""
    run = train("import sys; sys.exit(9)", MUSTER_HOLD_S="100", **PLAIN)
    failure = run.base / "output" / "failure"
    deadline = time.monotonic() + 20
    while not failure.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    assert run.process.poll() is None
    run.signal()
    started = time.monotonic()
    assert run.finish() == 9
    assert time.monotonic() - started < 2
    assert "held for 100 s" in run.err


def test_nothing_is_held_after_a_good_end(train):
    """A job that ends well ends."""
    started = time.monotonic()
    assert train("pass", MUSTER_HOLD_S="100", **PLAIN).finish() == 0
    assert time.monotonic() - started < 20
