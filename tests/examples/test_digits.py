"""The digits example keeps what it teaches.

It trains alone and in company, saves once and whole, and fails clearly.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GOOD_ENOUGH = 0.95
TIMEOUT_S = 120

# What a launcher sets. The tests may run inside a job themselves: the runs start without these.
LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Finished:
    """An ended run: its status, both streams, and the folder that it had for the model."""

    status: int
    out: str
    err: str
    model_dir: Path


Run = Callable[..., Finished]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that trains: `ranks` processes under torchrun, or 0 for a plain one."""

    def start(channel: Path, *args: str, ranks: int = 0) -> Finished:
        model_dir = tmp_path / "model"
        env = {
            key: value
            for key, value in os.environ.items()
            if key not in LAUNCHER and not key.startswith("SM_")
        }
        env |= {"SM_CHANNEL_TRAINING": str(channel), "SM_MODEL_DIR": str(model_dir)}
        # No GPU here, even where one is: two ranks would need two.
        env["CUDA_VISIBLE_DEVICES"] = ""
        # One thread a process: ranks don't fight for the cores, and sums keep their order.
        env["OMP_NUM_THREADS"] = "1"
        script = str(EXAMPLES / "digits_ddp.py")
        status, out, err = finish([sys.executable, *launcher(ranks), script, *args], env)
        return Finished(status, out, err, model_dir)

    return start


def launcher(ranks: int) -> list[str]:
    """Return what stands before the script. An address, not a name: names may not resolve here."""
    if not ranks:
        return []
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    where = ["--master-addr", "127.0.0.1", "--master-port", port]
    return ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), *where]


def finish(argv: list[str], env: dict[str, str]) -> tuple[int, str, str]:
    """Run to the end. On a timeout torchrun ends its ranks, so that none outlives its test."""
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=env, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        except BaseException:
            # TERM, not KILL: each rank has a session of its own, and only torchrun can end it.
            process.send_signal(signal.SIGTERM)
            raise
    return process.returncode, out, err


@pytest.mark.parametrize("ranks", [0, 2], ids=["plain", "torchrun-2"])
def test_trains_and_leaves_one_model(run: Run, digits: Path, ranks: int) -> None:
    """Without arguments: above 0.95, said once and last; a scaled rate; one whole model is left."""
    done = run(digits, ranks=ranks)

    assert done.status == 0, done.err
    world = max(1, ranks)
    assert done.out.startswith(f"processes={world} ")
    # After the two epochs of warm-up the learning rate is that of one process times their number.
    assert re.search(rf"^epoch=2 .* lr={0.02 * world:.4f}$", done.out, re.MULTILINE)
    assert done.out.count("test_accuracy=") == 1
    name, _, value = done.out.splitlines()[-1].partition("=")
    assert name == "test_accuracy"
    assert float(value) > GOOD_ENOUGH
    assert [path.name for path in done.model_dir.iterdir()] == ["model.pt"]
    weights = torch.load(done.model_dir / "model.pt", weights_only=True)
    assert weights
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())
    # A plain model loads them: no name carries DDP's prefix.
    assert not any(name.startswith("module.") for name in weights)


def test_the_seed_decides(run: Run, digits: Path) -> None:
    """Two runs with one seed print the same lines; another seed prints others."""
    first, again, other = (run(digits, "--epochs", "1", "--seed", seed) for seed in "778")

    assert (first.status, again.status, other.status) == (0, 0, 0), first.err
    assert first.out == again.out
    assert first.out != other.out


def test_global_batch_smaller_than_the_world(run: Run, tmp_path: Path) -> None:
    """A global batch of 1 over 2 processes gives each one sample, not none."""
    rng = np.random.default_rng(0)
    channel = tmp_path / "few"
    channel.mkdir()
    images, labels = rng.integers(0, 17, (40, 8, 8), dtype=np.uint8), rng.integers(0, 10, 40)
    np.savez(channel / "few.npz", images=images, labels=labels)

    done = run(channel, "--epochs", "1", "--batch-size", "1", ranks=2)

    assert done.status == 0, done.err
    assert done.out.splitlines()[0].endswith(" process_batch=1")


@pytest.mark.parametrize(
    ("files", "found"),
    [(None, "no such folder"), ([], "no such file"), (["a.npz", "b.npz"], "a.npz, b.npz")],
    ids=["missing", "empty", "ambiguous"],
)
def test_bad_channel_is_one_clear_error(
    run: Run, tmp_path: Path, files: list[str] | None, found: str
) -> None:
    """A wrong channel ends it non-zero; the last line names the folder, the wish and the find."""
    channel = tmp_path / "training"
    if files is not None:
        channel.mkdir()
        for name in files:
            (channel / name).touch()

    done = run(channel)

    assert done.status != 0
    assert done.out == ""
    assert done.err.count("Traceback") == 1
    assert done.err.splitlines()[-1] == (
        f"FileNotFoundError: channel 'training' at {channel}: "
        f"expected one .npz file with 'images' and 'labels', found {found}"
    )
    assert not done.model_dir.exists()
