"""The digits on a mesh: FSDP2 and tensor parallelism by the degrees that the SDKs send."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import torch

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "digits_mesh.py"
LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SHAPES = {"up.weight": (256, 64), "up.bias": (256,), "down.weight": (10, 256), "down.bias": (10,)}


def train(words: list[str], folder: Path, **variables: str) -> str:
    """What it printed. Fails where it fails."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in LAUNCHER and not name.startswith(("SM_", "MUSTER_"))
    }
    env |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check(said: str, model: Path, mesh: str) -> None:
    """It had the mesh, learnt, and left the whole model, that one process can load."""
    assert f"mesh={mesh}" in said
    (accuracy,) = re.findall(r"test_accuracy=([0-9.]+)", said)
    assert float(accuracy) > 0.95
    weights = torch.load(model / "model.pt", weights_only=True)
    assert {name: tuple(tensor.shape) for name, tensor in weights.items()} == SHAPES
    assert all(type(tensor) is torch.Tensor for tensor in weights.values())
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())


def test_two_hosts_with_muster(tmp_path: Path, digits: Path) -> None:
    """mp_parameters of a job on two hosts give a 2x2 mesh, with the tensors of a layer on one host."""
    degrees = json.dumps({"tensor_parallel_degree": 2})
    hosts = ["--hosts", "2", "--nproc", "2", "--out", "out", "--channel", f"training={digits}"]
    words = [
        "muster",
        "local",
        str(EXAMPLE),
        *hosts,
        "--hyperparameter",
        f"mp_parameters={degrees}",
    ]
    said = train(words, tmp_path)
    (model,) = (tmp_path / "out").rglob("model.pt")
    check(said, model.parent, "{'dp_shard': 2, 'tp': 2} parts=2")


def test_under_what_aws_starts(tmp_path: Path, digits: Path) -> None:
    """ModelTrainer's Torchrun(smp=…) starts torchrun without muster, with mp_parameters as JSON in a
    variable and as an argument. What is sharded over fewer ranks is replicated over the others."""
    sent = json.dumps({"tensor_parallel_degree": 2, "hybrid_shard_degree": 1})
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    where = ["--master-addr", "127.0.0.1", "--master-port", port]
    launcher = ["torch.distributed.run", "--nproc-per-node", "4", *where]
    words = [*launcher, str(EXAMPLE), "--data", str(digits), "--mp_parameters", sent]
    said = train(words, tmp_path, SM_HP_MP_PARAMETERS=sent, SM_MODEL_DIR=str(tmp_path / "model"))
    mesh = "{'dp_replicate': 2, 'dp_shard': 1, 'tp': 2} parts=2"
    check(said, tmp_path / "model", mesh)
