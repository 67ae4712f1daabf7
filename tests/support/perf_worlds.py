"""Ranks of this machine for the benchmark's tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parents[2]
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMI", "HOROVOD_", "TORCHELASTIC_")


def environment(**more: str) -> dict[str, str]:
    """Return this process's variables without a launcher's, and one thread a rank."""
    left = {name: v for name, v in os.environ.items() if not name.startswith(LAUNCHERS)}
    return {**left, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **more}


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def torchrun(
    words: list[str], ranks: int, env: Mapping[str, str] | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a script or a command on some ranks of this machine."""
    meeting = ["--rdzv-backend=static", "--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    return subprocess.run(
        [str(BIN / "torchrun"), f"--nproc-per-node={ranks}", *meeting, *words],
        env=environment(**(env or {})),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
