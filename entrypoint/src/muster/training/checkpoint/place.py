"""Who this process is among the job's ranks, and where its checkpoints are. Pure, but for the host's name."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

FOLDER_VARIABLE = "MUSTER_CHECKPOINT_DIR"
_SAGEMAKERS = "/opt/ml/checkpoints"
_FALLBACK = "checkpoints"
_ALONE = "local"
"""In a file's name where there is one host: `docker run` gives it a new name each time."""
_OTHERS = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "OMPI_COMM_WORLD_LOCAL_SIZE",
}
"""What mpirun says; below muster every launcher's ranks have both."""


class CheckpointError(RuntimeError):
    """A checkpoint can't be agreed on, read or written. The text says what to do."""


@dataclass(frozen=True)
class Place:
    """One rank and its folder."""

    folder: str
    host: str
    """As files have it in their names, so that hosts never write the same one."""
    rank: int
    world: int
    local_rank: int
    local_world: int
    """Ranks on this host; 0 when that isn't known."""

    @property
    def label(self) -> str:
        """This rank as a message names it."""
        return f"rank {self.rank}" + ("" if self.host == _ALONE else f" on {self.host}")


def find_place(env: Mapping[str, str], folder: str | None = None) -> Place:
    """This process's place.

    Args:
        env: RANK, WORLD_SIZE and their like, as every launcher below muster sets them; without
            them this process is alone.
        folder: the checkpoints' folder; else MUSTER_CHECKPOINT_DIR, else /opt/ml/checkpoints where there is one,
            else ./checkpoints.

    Raises:
        CheckpointError: RANK or one of its like is no number.
    """
    rank, world = _number(env, "RANK", 0), _number(env, "WORLD_SIZE", 1)
    local_world = _number(env, "LOCAL_WORLD_SIZE", world if world == 1 else 0)
    hosts = _number(env, "SM_HOST_COUNT", 1 if local_world == world else 2)
    host = _ALONE
    if hosts > 1:
        host = re.sub(r"[^\w.-]", "_", env.get("SM_CURRENT_HOST") or socket.gethostname())
    path = os.path.abspath(folder or env.get(FOLDER_VARIABLE) or _usual())
    if world == 1 and hosts > 1:
        # Each host trains by itself, and all folders may be one prefix of S3.
        path = os.path.join(path, host)
    return Place(path, host, rank, world, _number(env, "LOCAL_RANK", 0), local_world)


def _usual() -> str:
    """Where nothing names a folder: below torchrun alone, for instance."""
    return _SAGEMAKERS if os.path.isdir(_SAGEMAKERS) else _FALLBACK


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name) or env.get(_OTHERS.get(name, "")) or ""
    if not text:
        return default
    if not text.isdecimal():
        raise CheckpointError(
            f"{name}={text!r} is no number: the launcher sets it, leave it as it is"
        )
    return int(text)
