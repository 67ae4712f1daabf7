"""The harness as a process: statuses, signals, what is left behind. Needs no engine."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

PLAIN = {"MUSTER_LAUNCHER": "plain"}
TWO = {"MUSTER_LAUNCHER": "torchrun", "MUSTER_NPROC": "2"}


@pytest.mark.parametrize("launcher", [PLAIN, TWO], ids=["plain", "torchrun"])
@pytest.mark.parametrize(
    ("line", "status", "first"),
    [
        ("pass", 0, None),
        ("sys.exit(0)", 0, None),
        ("sys.exit(3)", 3, "the script ended with status 3"),
        # 0 to the system: a failed job would look good.
        ("sys.exit(256)", 1, "the script ended with status 1"),
        ("sys.exit(None)", 0, None),
        ("sys.exit(255)", 255, "the script ended with status 255"),
        ("sys.exit(70)", 70, "the script ended with status 70"),
        ("sys.exit('no labels')", 1, "no labels"),
        ("raise ValueError('bad label 7')", 1, "ValueError: bad label 7"),
        ("os.abort()", 134, "the script was killed by SIGABRT (signal 6)"),
        ("os.kill(os.getpid(), 9)", 137, "the script was killed by SIGKILL (signal 9)"),
        ("os.kill(os.getpid(), 11)", 139, "the script was killed by SIGSEGV (signal 11)"),
    ],
)
def test_the_status_is_the_scripts_own(launcher, line, status, first, train):
    """Every way in which a script can end gives the container's status and the first line."""
    run = train(f"import os, sys\nif os.environ.get('RANK', '1') == '1': {line}\n", **launcher)
    assert run.finish() == status, run.err
    assert run.failure[:1] == ([first] if first else [])
    assert run.record["status"] == status


def test_an_exception_is_the_reason_even_if_the_process_then_crashes(train):
    """Native code that aborts while Python dies of an error does not hide the error."""
    run = train("import atexit, os\natexit.register(os.abort)\nraise KeyError('epoch')", **PLAIN)
    assert run.finish() == 134
    assert run.failure[:2] == [
        "KeyError: 'epoch'",
        f"muster kind=user host={run.record['host']} rank=0 status=134",
    ]


def test_a_rank_that_failed_first_is_the_reason(train):
    """The rank that fails because of another is not blamed."""
    script = """
        import os, sys, time
        if os.environ["RANK"] == "0":
            time.sleep(0.5)
            raise RuntimeError("Connection closed by peer")
        time.sleep(0.3)
        raise ValueError("the real one")
    """
    run = train(script, **TWO)
    assert run.finish() == 1
    assert run.failure[0] == "ValueError: the real one"


def test_an_echo_does_not_hide_the_status_behind_it(train):
    """A rank that is still shutting down after sys.exit(7) keeps its 7, though another rank has
    already failed on the connection that it closed."""
    script = """
        import atexit, os, sys, time
        if os.environ["RANK"] == "1":
            atexit.register(time.sleep, 0.7)
            sys.exit(7)
        time.sleep(0.3)
        raise RuntimeError("[pair.cc:553] Connection closed by peer [127.0.0.1]:56003")
    """
    run = train(script, **TWO)
    assert run.finish() == 7, run.err
    assert run.failure[0] == "the script ended with status 7"
    assert [rank["status"] for rank in run.record["ranks"]] == [1, 7]


def test_an_echo_alone_ends_the_job_too(train):
    """When no other cause comes, the rank that lost its connection ends the others."""
    script = """
        import os, time
        if os.environ["RANK"] == "0":
            raise RuntimeError("Connection reset by peer")
        time.sleep(60)
    """
    run = train(script, **TWO)
    started = time.monotonic()
    assert run.finish() == 1
    assert time.monotonic() - started < 12
    assert run.failure[0] == "RuntimeError: Connection reset by peer"


def test_a_leftover_process_does_not_hold_the_job(train):
    """A helper that keeps the script's output open is ended, and the status is the script's."""
    run = train("import os\nos.system('sleep 300 & echo $!')\nraise SystemExit(5)", **PLAIN)
    started = time.monotonic()
    assert run.finish() == 5
    assert time.monotonic() - started < 15
    deadline = time.monotonic() + 5
    # One that has ended and is not waited for has no program any more.
    while os.path.exists(f"/proc/{int(run.out)}/exe") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{int(run.out)}/exe")


def test_no_zombies(train):
    """Orphans of the script become the harness's children and are reaped while it runs."""
    script = """
        import os, time
        for _ in range(1000):
            if os.fork() == 0:
                if os.fork() == 0:
                    os._exit(0)
                os._exit(0)
            os.wait()
        time.sleep(0.5)
        states = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            states.append((fields[0], int(fields[1])))
        harness = int(open(f"/proc/{os.getppid()}/stat").read().rsplit(")", 1)[1].split()[1])
        print("zombies:", sum(state == "Z" and parent == harness for state, parent in states))
    """
    run = train(script, **PLAIN)
    assert run.finish() == 0, run.err
    assert run.out == "zombies: 0\n"


SAVES = """
    import os, signal, sys, time
    rank = os.environ.get("RANK", "0")
    def save(number, frame):
        with open(f"{os.environ['SM_MODEL_DIR']}/signals-{rank}", "a") as file:
            file.write(f"{number} ")
        time.sleep(0.5)
        sys.exit(0)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, save)
    open(f"{os.environ['SM_MODEL_DIR']}/ready-{rank}", "w").close()
    while True:
        time.sleep(1)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_every_rank_may_save_on_a_stop(number, train):
    """Each rank gets the signal once, even when it is sent twice; saving and exit 0 is success."""
    run = train(SAVES, **TWO)
    for rank in range(2):
        run.wait_for_file(f"ready-{rank}")
    run.signal(number)
    run.wait_for_file("signals-0")
    run.signal(number)
    assert run.finish() == 0, run.err
    got = [(run.base / "model" / f"signals-{rank}").read_text() for rank in range(2)]
    assert got == [f"{int(number)} "] * 2
    assert run.record["stop_signal"] == number
    assert run.failure == []


def test_a_script_that_ignores_the_stop_is_killed_after_the_grace_time(train):
    """MUSTER_STOP_GRACE_S bounds the stop; the failure file says what happened."""
    script = """
        import os, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
        time.sleep(300)
    """
    run = train(script, MUSTER_STOP_GRACE_S="1", **PLAIN)
    run.wait_for_file("ready")
    started = time.monotonic()
    run.signal()
    assert run.finish() == 137
    assert 0.9 < time.monotonic() - started < 10
    why = "rank 0 did not end within 1 s of SIGTERM (signal 15) and had to be killed"
    assert run.failure[0] == why


def test_the_ranks_die_with_a_killed_harness(train):
    """When the harness is killed, its ranks do not live on unseen."""
    script = """
        import os, time
        path = os.environ["SM_MODEL_DIR"] + "/pid"
        open(path + ".new", "w").write(str(os.getpid()))
        os.rename(path + ".new", path)
        time.sleep(300)
    """
    run = train(script, **PLAIN)
    pid = int(run.wait_for_file("pid").read_text())
    run.signal(signal.SIGKILL)
    run.process.wait()
    deadline = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}/exe") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{pid}/exe")


def test_a_launcher_that_dies_is_the_reason(train):
    """When torchrun is killed under its ranks, that is what the failure file says."""
    script = """
        import os, signal, time
        open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
        shim = os.getppid()
        torchrun = int(open(f"/proc/{shim}/stat").read().rsplit(")", 1)[1].split()[1])
        os.kill(torchrun, signal.SIGKILL)
        time.sleep(300)
    """
    run = train(script, MUSTER_LAUNCHER="torchrun")
    assert run.finish() == 76, run.err
    assert run.failure[0].startswith("torchrun ended by SIGKILL (signal 9) before its ranks")
    assert "kind=launch" in run.failure[1]


def test_output_arrives_whole_and_at_once(train):
    """Rank 0's lines are raw, other ranks' have a prefix, bytes stay as they are."""
    script = """
        import os, sys
        for i in range(2000):
            print(f"{os.environ['RANK']}:{i} " + "x" * 200)
        os.write(1, b"\\x00\\xff\\n")
    """
    run = train(script, MUSTER_LAUNCHER="torchrun", MUSTER_NPROC="2")
    run.process.stdout.reconfigure(errors="surrogateescape")
    assert run.finish() == 0, run.err
    raw = [line for line in run.out.splitlines() if line.startswith("0:")]
    host = run.record["host"]
    labelled = [line for line in run.out.splitlines() if line.startswith(f"[{host} 1] 1:")]
    assert [line.split()[0] for line in raw] == [f"0:{i}" for i in range(2000)]
    assert [line.split()[2] for line in labelled] == [f"1:{i}" for i in range(2000)]
    assert run.out.count("\0\udcff\n") == 2


def test_a_shell_entry_point_runs_once(train):
    """A shell script for which nobody names a launcher is run once a host, and knows what launchers ask for."""
    run = train("echo $1 $NNODES $NODE_RANK $NPROC_PER_NODE", "hello", name="run.sh")
    assert run.finish() == 0, run.err
    assert run.out == "hello 1 0 1\n"
    assert run.record["launcher"] == "cluster"


def test_a_long_path_for_temporary_files_is_no_obstacle(train, tmp_path):
    """A socket's path is short; TMPDIR need not be."""
    long = tmp_path / ("x" * 120)
    long.mkdir()
    run = train("print('trained')", TMPDIR=str(long), **PLAIN)
    assert run.finish() == 0, run.err
    assert run.out == "trained\n"


def test_a_variable_too_long_for_linux_is_a_file(train, tmp_path):
    """SageMaker's own limits allow an SM_HPS of 250,000 characters: the script starts, and can
    read it."""
    script = """
        import json, os
        print(len(json.load(open(os.environ["SM_HPS_FILE"]))), "SM_HPS" in os.environ)
        print(len(os.environ["SM_HP_K7"]))
    """
    config = tmp_path / "ml" / "input" / "config"
    config.mkdir(parents=True)
    sent = {f"k{i}": "x" * 2500 for i in range(100)}
    (config / "hyperparameters.json").write_text(json.dumps(sent))
    run = train(script, MUSTER_ARGS="none", **PLAIN)
    assert run.finish() == 0, run.err
    assert run.out == "100 False\n2500\n"
    assert "SM_HPS is longer than a variable may be" in run.err


def test_ranks_that_ignore_the_end_are_killed_after_the_abort_time(train):
    """MUSTER_ABORT_GRACE_S bounds how long the others may take when a rank has failed."""
    script = """
        import os, signal, sys, time
        if os.environ["RANK"] == "1":
            time.sleep(0.5)
            sys.exit(9)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(300)
    """
    run = train(script, MUSTER_ABORT_GRACE_S="0.5", **TWO)
    assert run.finish() == 9, run.err
    assert [rank["status"] for rank in run.record["ranks"]] == [137, 9]
