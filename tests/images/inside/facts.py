"""Runs inside an image, on the user's Python, and prints what it finds as JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib.metadata import distributions
from pathlib import Path

UNSEEN = {"/proc", "/sys", "/dev", "/inside"}
COMMANDS = (
    *("train", "muster", "muster-rank", "muster-rsh", "torchrun", "python", "python3", "pip"),
    *("pip3", "bash", "tar", "gzip", "find", "chmod", "cat"),
    *(
        "all_reduce_perf",
        "all_gather_perf",
        "reduce_scatter_perf",
        "alltoall_perf",
        "broadcast_perf",
    ),
    *("reduce_perf", "gather_perf", "scatter_perf", "sendrecv_perf"),
    *("gcc", "g++", "cc", "c++", "clang", "ld", "as", "make", "cmake", "ninja"),
    *("ssh", "sshd", "ssh-keygen"),
)


def files() -> dict[str, int]:
    """Every file of the image with its size, links with 0."""
    found = {}
    for folder, folders, names in os.walk("/"):
        folders[:] = [name for name in folders if str(Path(folder, name)) not in UNSEEN]
        for name in names:
            path = Path(folder, name)
            found[str(path)] = 0 if path.is_symlink() else path.stat().st_size
    return found


def venv(path: str) -> dict[str, str]:
    """What a venv holds, by name."""
    (packages,) = Path(path).glob("lib/python3.*/site-packages")
    return {dist.metadata["Name"]: dist.version for dist in distributions(path=[str(packages)])}


def check() -> str:
    """What pip says of the venv's dependencies; empty when they fit."""
    done = subprocess.run(["pip", "check"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout


print(
    json.dumps(
        {
            "files": files(),
            "folders": [
                folder
                for folder in ("/opt/ml", "/run/secrets", "/run/apt")
                if Path(folder).exists()
            ],
            "mounted": os.listdir("/mnt"),
            "commands": {name: shutil.which(name) for name in COMMANDS},
            "user": venv("/opt/venv"),
            "harness": venv("/opt/muster"),
            "constraints": Path("/opt/muster/constraints.txt")
            .read_text(encoding="utf-8")
            .splitlines(),
            "manifest": json.loads(Path("/opt/muster/manifest.json").read_text(encoding="utf-8")),
            "pip_check": check(),
        }
    )
)
