"""The newest step that all ranks have whole. Effects: a unix socket of the harness, else torch.distributed."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import time
from collections.abc import Mapping

from muster.tally import KEYS, NONE, Tally, merge, newest_first, step_of
from muster.training.checkpoint.place import CheckpointError, Place

_SOCKET = "MUSTER_AGREE"
_SEVERAL = 2
SIGTERM_STATUS = 143
_PATH, _NAME = 200, 300
"""Characters of a folder and of a rank's name that travel."""


def new_run() -> str:
    """What this run would be called: later ones sort behind it. 12 hexadecimal digits."""
    return f"{int(time.time()) & 0xFFFFFFFF:08x}{secrets.token_hex(2)}"


def count(place: Place, keys: list[str], foreign: int) -> Tally:
    """What this rank has whole, as all are asked for it."""
    mine = newest_first(keys)
    newest = step_of(mine[0]) if mine else NONE
    return Tally(
        world=place.world,
        ranks=(place.rank,),
        keys=mine[:KEYS],
        most=len({step_of(key) for key in mine}),
        newest=newest,
        # Its own folder, so that the text is the same on all hosts.
        poorest=f"{place.label} ({place.folder[-_PATH:]})"[-_NAME:],
        lowest=newest,
        foreign=foreign,
        run=new_run(),
    )


def agree(tally: Tally, env: Mapping[str, str]) -> Tally:
    """What all ranks have whole. Waits until all of them have called.

    Raises:
        CheckpointError: the ranks can't be asked.
        SystemExit: the job is ended meanwhile.
    """
    if tally.world == 1:
        return tally
    if address := env.get(_SOCKET):
        return _ask_harness(tally, address)
    if (gathered := _gather(tally)) is not None:
        return merge(gathered)
    raise CheckpointError(
        f"{tally.world} ranks can't agree on a checkpoint: nobody is there to ask. Start them with "
        "muster (without MUSTER_EXEC=1), or call torch.distributed.init_process_group() before resume()"
    )


def choose(whole: Tally) -> str | None:
    """The key at which all ranks go on; None for a fresh start. The same for all of them. Pure.

    Raises:
        CheckpointError: there are checkpoints, and all ranks together can't go on from any.
    """
    if whole.keys:
        return whole.keys[0]
    if whole.foreign:
        raise CheckpointError(
            f"the checkpoints were saved by {whole.foreign} ranks, and this job has "
            f'{whole.world}: start as many, or save with scope="leader" or save_sharded(), which any '
            "number of ranks can read"
        )
    if whole.most < _SEVERAL:
        return None  # Killed in its first save: some have it, others don't.
    has = f"nothing later than step {whole.lowest}" if whole.lowest != NONE else "none"
    raise CheckpointError(
        f"no checkpoint is whole on all {whole.world} ranks: {whole.poorest} has {has}, "
        f"others go up to step {whole.newest}. Let all hosts find the same folder or S3 prefix, or "
        "empty it to begin anew"
    )


def _ask_harness(tally: Tally, address: str) -> Tally:
    try:
        with socket.socket(socket.AF_UNIX) as conn:
            conn.connect(address)
            conn.sendall(json.dumps({"tally": tally.pack()}).encode() + b"\n")
            with conn.makefile("rb") as answers:
                line = answers.readline()
        answer = json.loads(line) if line else {"ending": True}
        if answer.get("ending"):
            # As the signal itself would have ended it: there is nothing wrong with the script.
            raise SystemExit(SIGTERM_STATUS)
        if why := answer.get("why"):
            raise CheckpointError(f"no checkpoint was agreed on: {why}")
        return Tally.unpack(answer["tally"])
    except (OSError, ValueError, KeyError) as error:
        what = f"the harness does not answer at {os.path.basename(address)}: {error}"
        raise CheckpointError(f"{what}. Ranks of this job alone can ask it") from error


def _gather(tally: Tally) -> list[Tally] | None:
    """Every rank's, by torch.distributed; None where there is no process group."""
    if "torch" not in sys.modules:
        return None
    import torch.distributed as dist  # noqa: PLC0415  (the script has it already)

    if not (dist.is_available() and dist.is_initialized()):
        return None
    every: list[Tally | None] = [None] * dist.get_world_size()
    dist.all_gather_object(every, tally)
    return [each for each in every if each is not None]
