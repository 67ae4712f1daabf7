"""Checkpoints of real jobs: hosts that agree, saves that are killed, and what happens to those that wait."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from job_process import Run, start_job

HOSTS = {"algo-1": "127.5.0.1", "algo-2": "127.5.0.2"}

DIFFERENT = """
    import os
    from muster.training import checkpoint
    rank, host = int(os.environ["RANK"]), os.environ["SM_CURRENT_HOST"]
    step = checkpoint.resume()
    loaded = checkpoint.load(step) if step else None
    print("resumed", rank, step, loaded, flush=True)
    if step is None:
        for step in (10, 20, 30)[: 3 if host == "algo-1" else 2]:
            checkpoint.save(f"{rank}-at-{step}", step)
"""
SHARED = """
    import os, signal
    from muster.training import checkpoint

    class Killer:
        def __reduce__(self):
            # In the middle of the file: what stands before is written, what stands behind is not.
            os.kill(os.getpid(), signal.SIGKILL)

    rank = int(os.environ["RANK"])
    step = checkpoint.resume()
    print("resumed", rank, step, checkpoint.load(step)[0] if step else None, flush=True)
    if step is None:
        checkpoint.save([f"{rank}-at-1"], 1)
        behind = [Killer()] if rank == 3 else []
        checkpoint.save([f"{rank}-at-2", os.urandom(1_000_000), *behind, "end"], 2)
"""


class Hosts:
    """Two hosts of two ranks each, which can be started again and again on the same folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[Run] = []
        self.ports = []
        for _ in range(2):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.ports.append(str(probe.getsockname()[1]))

    def start(self, script: str, **env: str) -> list[Run]:
        shared = {
            "MUSTER_NPROC": "2",
            "MUSTER_PORT": self.ports[0],
            "MUSTER_MASTER_PORT": self.ports[1],
            "MUSTER_ADDRESSES": ",".join("=".join(pair) for pair in HOSTS.items()),
        }
        runs = []
        for host in HOSTS:
            config = self.folder / host / "ml" / "input" / "config"
            config.mkdir(parents=True, exist_ok=True)
            resources = {"current_host": host, "hosts": list(HOSTS)}
            (config / "resourceconfig.json").write_text(json.dumps(resources), encoding="utf-8")
            runs.append(start_job(self.folder / host, script, (), "train.py", shared | env))
        self.runs += runs
        return runs

    def finish(self, script: str, **env: str) -> tuple[list[int], str]:
        """Their statuses, and all that they have printed."""
        runs = self.start(script, **env)
        statuses = [run.finish(120) for run in runs]
        return statuses, "".join(run.out + run.err for run in runs)


@pytest.fixture
def two_hosts(tmp_path):
    """Two hosts; what is left of them is ended."""
    hosts = Hosts(tmp_path)
    yield hosts
    for run in hosts.runs:
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate()


def resumed(log: str) -> list[str]:
    """What each rank said of where it goes on, in the ranks' order."""
    return sorted(re.findall(r"resumed (\d .+)", log))


def test_case_096_hosts_agree_on_the_newest_that_all_have(two_hosts):
    """Hosts with folders of their own, one of them a step ahead: all ranks go on at the same step,
    each with its own state, without any process group."""
    statuses, log = two_hosts.finish(DIFFERENT)
    assert statuses == [0, 0], log
    assert resumed(log) == [f"{rank} None None" for rank in range(4)]
    ahead = two_hosts.folder / "algo-1" / "ml" / "checkpoints" / "step-00000030"
    assert len(list(ahead.iterdir())) == 2
    statuses, log = two_hosts.finish(DIFFERENT)
    assert statuses == [0, 0], log
    assert resumed(log) == [f"{rank} 20 {rank}-at-20" for rank in range(4)]


def test_case_096_a_shared_folder_and_a_kill_in_mid_save(two_hosts):
    """Two hosts write into one folder, and one rank is killed in its second save: nobody has written
    another's file, and the restart goes on at the first."""
    folder = two_hosts.folder / "shared"
    statuses, log = two_hosts.finish(SHARED, MUSTER_CHECKPOINT_DIR=str(folder))
    assert statuses == [137, 137], log
    whole = [path.name for path in (folder / "step-00000001").iterdir()]
    assert len(whole) == 4
    assert any(path.name.endswith(".tmp") for path in (folder / "step-00000002").iterdir())
    statuses, log = two_hosts.finish(SHARED, MUSTER_CHECKPOINT_DIR=str(folder))
    assert statuses == [0, 0], log
    assert resumed(log) == [f"{rank} 1 {rank}-at-1" for rank in range(4)]
    assert not list(folder.glob("step-*/.*.tmp"))


def test_case_096_a_host_that_lacks_its_folder_is_one_reason(two_hosts):
    """All ranks fail with the same text: both hosts tell it, with who lacks what and what to do."""
    statuses, log = two_hosts.finish(DIFFERENT)
    assert statuses == [0, 0], log
    lost = two_hosts.folder / "algo-2" / "ml" / "checkpoints"
    lost.rename(lost.with_name("elsewhere"))
    statuses, log = two_hosts.finish(DIFFERENT)
    assert statuses == [1, 1], log
    first, second = (run.failure for run in two_hosts.runs[-2:])
    assert first[:2] == second[:2]
    assert first[0].startswith(
        "muster.training.checkpoint.CheckpointError: no checkpoint is whole on all 4 ranks: "
        f"rank 2 on algo-2 ({lost}) has none, others go up to step 30."
    )
    assert "kind=user" in first[1]


WAITING = """
    import os, signal, time
    from pathlib import Path
    from muster.training import checkpoint
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.environ["RANK"] == "1":
        Path(os.environ["SM_MODEL_DIR"], "started").touch()
        while not Path(os.environ["SM_MODEL_DIR"], "go").exists():
            time.sleep(0.05)
        {fault}
    Path(os.environ["SM_MODEL_DIR"], "asks").touch()
    checkpoint.resume()
"""


def test_a_rank_that_fails_ends_those_that_wait(train):
    """Nobody waits for a rank that is gone: the job ends at once, with that rank's reason."""
    run = train(WAITING.format(fault='raise ValueError("bad")'), MUSTER_NPROC="2")
    run.wait_for_file("started")
    (run.base / "model" / "go").touch()
    assert run.finish() == 1
    assert run.failure[0] == "ValueError: bad"
    # Rank 0 ignores SIGTERM: it is told that the job is ending, before it would be killed.
    assert "did not end in time" not in run.err


def test_a_stop_ends_those_that_wait(train):
    """A rank that waits for the others in resume() does not use up the time that a stop gives."""
    run = train(WAITING.format(fault="signal.pause()"), MUSTER_NPROC="2", MUSTER_STOP_GRACE_S="8")
    run.wait_for_file("started")
    run.wait_for_file("asks")
    run.signal(signal.SIGTERM)
    assert run.finish() != 0
    ends = {rank["rank"]: rank for rank in run.record["ranks"]}
    # As SIGTERM itself would have ended it: nothing is wrong with the script.
    assert ends[0]["status"] == 143
    assert not ends[0]["error"]
    assert ends[1]["signal"] == signal.SIGKILL


# One process, killed in the middle of a save.

LOOP = """
    import os, shutil, signal, sys
    from muster.training import checkpoint
    from muster.training.checkpoint import shards

    def die(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    class Killer:
        def __reduce__(self):
            die()

    def after(function):
        def both(*arguments, **options):
            function(*arguments, **options)
            die()
        return both

    point, folder = sys.argv[1:]
    step = checkpoint.resume(folder=folder)
    loaded = checkpoint.load(step, folder=folder) if step else None
    print(step, loaded and (loaded["step"] == step and len(loaded["data"]) == 300_000), flush=True)
    if point == "none":
        sys.exit()
    for next in range((step or 0) + 1, (step or 0) + 5):
        state = {"step": next, "data": os.urandom(300_000)}
        if next == (step or 0) + 4:
            if point == "first-bytes":
                state = {"killer": Killer(), **state}
            elif point == "last-bytes":
                state = {**state, "killer": Killer()}
            elif point == "before-sync":
                os.fsync = die
            elif point == "before-rename":
                os.replace = die
            elif point == "after-rename":
                os.replace = after(os.replace)
            elif point == "before-the-mark":
                shards.remove_same = die
            elif point == "removing-old":
                def half(path, **_):
                    os.remove(os.path.join(path, os.listdir(path)[0]))
                    die()
                shutil.rmtree = half
        checkpoint.save(state, next, folder=folder, keep=2)
        print("saved", next, flush=True)
"""
LOST = {"first-bytes", "last-bytes", "before-sync", "before-rename"}
"""Points at which the step that is being saved has no name yet."""


@pytest.fixture
def loop(tmp_path):
    """A function that runs LOOP in a process of its own; its status and lines."""
    script = tmp_path / "loop.py"
    script.write_text(textwrap.dedent(LOOP), encoding="utf-8")

    def run(point: str) -> tuple[int, list[str]]:
        command = [sys.executable, str(script), point, str(tmp_path / "checkpoints")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout.splitlines()

    return run


@pytest.mark.parametrize(
    "point",
    [
        "first-bytes",
        "last-bytes",
        "before-sync",
        "before-rename",
        "after-rename",
        "before-the-mark",
        "removing-old",
    ],
)
def test_case_096_a_kill_at_any_point_of_a_save(loop, point):
    """The step before is there and whole, or the new one is; three times in a row."""
    newest = 0
    for _ in range(3):
        code, lines = loop(point)
        assert code == -signal.SIGKILL, lines
        assert lines[0] == (f"{newest} True" if newest else "None None")
        newest += 3 if point in LOST else 4
    assert loop("none") == (0, [f"{newest} True"])


def test_case_096_kills_at_random_times(tmp_path):
    """Whatever moment a kill -9 comes at, what save() has returned for is never lost."""
    script = textwrap.dedent("""
        import os, sys
        from muster.training import checkpoint
        step = checkpoint.resume(folder=sys.argv[1])
        assert step is None or checkpoint.load(step, folder=sys.argv[1])[0] == step
        print("resumed", step or 0, flush=True)
        while True:
            step = (step or 0) + 1
            checkpoint.save([step, os.urandom(2_000_000)], step, folder=sys.argv[1], keep=1)
            print("saved", step, flush=True)
    """)
    saved, dice = 0, random.Random(96)
    for _ in range(8):
        command = [sys.executable, "-c", script, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            lines = [process.stdout.readline() for _ in range(3)]
            time.sleep(dice.uniform(0, 0.05))
            process.kill()
            lines += process.stdout.readlines()
        begun = int(lines[0].split()[1])
        # The kill may have come between the name and the line.
        assert begun in (saved, saved + 1), lines
        saved = int(
            [line for line in lines if line.startswith("saved") and line.endswith("\n")][
                -1
            ].split()[1]
        )
    assert saved >= 16


# Without the harness, and with torch.

BY_TORCH = """
    import os, sys
    import torch.distributed as dist
    from muster.training import checkpoint
    if sys.argv[1] == "group":
        dist.init_process_group("gloo")
    step = checkpoint.resume()
    os.write(1, f"resumed {os.environ['RANK']} {step}\\n".encode())
    if step is None:
        for step in (10, 20)[: 2 - dist.get_rank()]:
            checkpoint.save({"rank": dist.get_rank()}, step)
    else:
        assert checkpoint.load(step) == {"rank": dist.get_rank()}
    dist.destroy_process_group()
"""


@pytest.fixture
def torchrun(tmp_path):
    """A function that runs a script by torchrun alone, as two ranks; its status and output."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(BY_TORCH), encoding="utf-8")

    def run(*arguments: str) -> tuple[int, str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "SM_"))}
        env |= {"MUSTER_CHECKPOINT_DIR": str(tmp_path / "checkpoints"), "OMP_NUM_THREADS": "1"}
        words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        command = [sys.executable, *words, str(script), *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, env=env, text=True, timeout=120, check=False, **pipes)
        return done.returncode, done.stdout

    return run


def test_without_the_harness_a_process_group_serves(torchrun):
    """Below torchrun alone, or with MUSTER_EXEC=1, the ranks ask each other by torch.distributed."""
    status, out = torchrun("group")
    assert status == 0, out
    status, out = torchrun("group")
    assert status == 0, out
    assert resumed(out) == ["0 10", "1 10"]


def test_without_either_the_error_says_what_is_needed(torchrun):
    """Ranks that nobody can ask end with what to do, and never guess."""
    status, out = torchrun("no-group")
    assert status != 0
    assert "2 ranks can't agree on a checkpoint: nobody is there to ask" in out
    assert "init_process_group() before resume()" in out


SHARDED = """
    import os
    import torch, torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    from muster.training import checkpoint
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    def state(start):
        whole = torch.arange(start, start + 8, dtype=torch.float32)
        return {"weight": distribute_tensor(whole, mesh, [Shard(0)]), "step": start}
    step = checkpoint.resume()
    if step is None:
        for step in (10, 20):
            folder = checkpoint.save_sharded(state(step), step)
        if dist.get_rank() == 0:
            os.remove(os.path.join(folder, "rank-0-of-2.json"))  # As if killed before its mark.
        dist.barrier()
        step = checkpoint.resume()
    mine = state(0)
    checkpoint.load_sharded(mine, step)
    whole = mine["weight"].full_tensor().tolist()
    print("resumed", dist.get_rank(), step, whole == [float(step + n) for n in range(8)], flush=True)
    dist.barrier()
    dist.destroy_process_group()
"""


def test_a_sharded_state_comes_back_on_any_number_of_ranks(train):
    """Torch's own files, whole only with the marks of all ranks; two ranks saved it, two and one read it."""
    for ranks in (2, 1):
        run = train(SHARDED, MUSTER_NPROC=str(ranks), OMP_NUM_THREADS="1")
        assert run.finish(120) == 0, run.err
        assert resumed(run.out) == [f"{rank} 10 True" for rank in range(ranks)], run.out


ANY_OBJECT = """
    import sys
    import torch
    from muster.training import checkpoint
    class Mine:
        pass
    checkpoint.save({"weights": torch.ones(3), "mine": Mine()}, 1, folder=sys.argv[1])
    try:
        checkpoint.load(1, folder=sys.argv[1])
    except checkpoint.CheckpointError as error:
        print(error)
    state = checkpoint.load(1, folder=sys.argv[1], weights_only=False)
    print(state["weights"].sum().item(), type(state["mine"]).__name__)
"""


def test_any_object_is_read_when_asked_for(tmp_path):
    """Tensors and plain data are read as they are; for more the error says how, and what it means."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(ANY_OBJECT), encoding="utf-8")
    command = [sys.executable, str(script), str(tmp_path / "checkpoints")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert "can't be read" in first
    assert "weights_only=False" in first
    assert last == "3.0 Mine"


# What the harness says of the folder.


def test_the_folder_is_told_to_the_ranks(train, tmp_path):
    """MUSTER_CHECKPOINT_DIR is set for each rank, to what the user says or to /opt/ml/checkpoints."""
    script = 'import os; print("folder", os.environ["MUSTER_CHECKPOINT_DIR"])'
    run = train(script, MUSTER_LAUNCHER="plain")
    assert run.finish() == 0
    assert f"folder {run.base}/checkpoints\n" in run.out
    assert not (run.base / "checkpoints").exists()
    run = train(script, MUSTER_LAUNCHER="plain", MUSTER_CHECKPOINT_DIR=str(tmp_path / "own"))
    assert run.finish() == 0
    assert f"folder {tmp_path}/own\n" in run.out


def test_a_folder_that_can_not_be_made_ends_the_job_first(train, tmp_path):
    """Not after the first hours of training: no rank begins, status 75, and the reason has the folder."""
    (tmp_path / "file").touch()
    run = train(
        "print('begun')", MUSTER_LAUNCHER="plain", MUSTER_CHECKPOINT_DIR=f"{tmp_path}/file/x"
    )
    assert run.finish() == 75
    assert run.failure[0].startswith(f"checkpoints can't be written to {tmp_path}/file/x ")
    assert "begun" not in run.out
