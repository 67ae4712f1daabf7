"""The log of real jobs: whose lines, in what form, and what a slow reader gets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

import pytest

PLAIN = {"MUSTER_LAUNCHER": "plain"}
TWO = {"MUSTER_LAUNCHER": "torchrun", "MUSTER_NPROC": "2"}
SPEAK = """
import os, sys, time
rank = int(os.environ["RANK"])
print("out of", rank, flush=True)
print("err of", rank, file=sys.stderr, flush=True)
said = os.environ["SM_MODEL_DIR"] + "/said"
if rank == 0:
    open(said, "w").close()
if rank == 1 and sys.argv[1:]:
    while not os.path.exists(said):
        time.sleep(0.02)
    sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("mode", "shown"),
    [
        ("", {"out of 0", "[HOST 1] out of 1"}),
        ("rank0-raw", {"out of 0", "[HOST 1] out of 1"}),
        ("prefix", {"[HOST 0] out of 0", "[HOST 1] out of 1"}),
        ("rank0", {"out of 0"}),
        ("failed", set()),
    ],
)
def test_whose_lines_are_shown(train, mode, shown):
    """MUSTER_LOG chooses; stdout and stderr stay apart."""
    run = train(SPEAK, MUSTER_LOG=mode, **TWO)
    assert run.finish() == 0, run.err
    host = run.record["host"]
    out = {line.replace(f"[{host} ", "[HOST ") for line in run.out.splitlines()}
    assert out == shown
    err = [line for line in run.err.splitlines() if "err of" in line]
    assert len(err) == len(shown)


@pytest.mark.parametrize("mode", ["rank0", "failed"])
def test_what_is_hidden_is_kept_and_a_failure_is_shown(train, mode):
    """Hidden output is in files; of a rank that fails the last lines are in the log, labelled."""
    run = train(SPEAK, "3", MUSTER_LOG=mode, **TWO)
    assert run.finish() == 3
    host = run.record["host"]
    for stream in ("out", "err"):
        assert f"[{host} 1] {stream} of 1" in run.err
    folder = run.base / "output" / "data" / "muster" / host
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "rank-0.stdout": "out of 0\n",
        "rank-0.stderr": "err of 0\n",
        "rank-1.stdout": "out of 1\n",
        "rank-1.stderr": "err of 1\n",
    }


def test_every_rank_in_files(train, tmp_path):
    """MUSTER_LOG_DIR has each stream of each rank, byte for byte, beside the log."""
    script = """
        import os
        os.write(1, b"\\x00\\xff half \\xf0\\x9f")
        os.write(1, b"\\x98\\x80 1 %\\r2 %\\r3 %\\n")
    """
    run = train(script, MUSTER_LOG_DIR=str(tmp_path / "logs"), **TWO)
    run.process.stdout.reconfigure(errors="surrogateescape")
    assert run.finish() == 0, run.err
    want = b"\x00\xff half \xf0\x9f\x98\x80 1 %\r2 %\r3 %\n"
    for rank in range(2):
        assert (tmp_path / "logs" / f"rank-{rank}.stdout").read_bytes() == want


BAR = """
import sys, time
for step in range(2000):
    sys.stderr.write(f"\\r{step / 20:5.1f} %")
    sys.stderr.flush()
    time.sleep(0.0005)
sys.stderr.write("\\r100.0 %\\n")
print("loss=0.5")
"""


def test_a_progress_bar_is_live_and_thin(train):
    """A bar that is drawn 2,000 times is shown a few times a second, and its end always."""
    started = time.monotonic()
    run = train(BAR, **PLAIN)
    assert run.finish() == 0
    seconds = time.monotonic() - started
    shown = re.findall(r"[\d.]+ %", run.err)
    assert shown[-1] == "100.0 %"
    assert 2 <= len(shown) < 12 * seconds
    assert run.out == "loss=0.5\n"


def test_ten_megabytes_without_an_end_of_line(train):
    """They arrive whole, and the harness holds a part of them at most."""
    script = """
        import os, sys
        sys.stdout.write("x" * 10_000_000)
        sys.stdout.flush()
        harness = int(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1])
        peak = next(l for l in open(f"/proc/{harness}/status") if l.startswith("VmHWM"))
        print("", int(peak.split()[1]) // 1024)
    """
    run = train(script, **PLAIN)
    assert run.finish() == 0, run.err
    line, _, peak = run.out.rpartition(" ")
    assert line == "x" * 10_000_000
    assert int(peak) < 60


def test_a_reader_that_stops_does_not_stop_the_job(tmp_path):
    """Nobody reads the log: a script that prints 30 MB ends in its own time, what the log did not
    take is in a file, and the job ends a few seconds later."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(
        "import os, time\n"
        "started = time.monotonic()\n"
        "for i in range(300_000):\n"
        "    print(f'{i:06d}', 'x' * 92)\n"
        "with open(os.environ['SM_MODEL_DIR'] + '/seconds', 'w') as file:\n"
        "    file.write(str(time.monotonic() - started))\n"
    )
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "muster", "train", str(code / "train.py")],
        env={**os.environ, **PLAIN, "SAGEMAKER_BASE_DIR": str(tmp_path / "ml")},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    assert process.wait(timeout=60) == 0
    assert float((tmp_path / "ml" / "model" / "seconds").read_text()) < 20
    (overflow,) = (tmp_path / "ml" / "output" / "data" / "muster").glob("overflow-*-1.log")
    kept = overflow.read_bytes()
    got = os.read(read, 1 << 20)
    while more := os.read(read, 1 << 20):
        got += more
    os.close(read)
    # Nothing is lost; a line that was shown in part when the reader fell behind goes on in the file.
    assert got.count(b"x") + kept.count(b"x") >= 300_000 * 92
    seen = {line[:6] for line in (got + kept).split(b"\n")}
    assert len({b"%06d" % i for i in range(300_000)} - seen) <= 2
