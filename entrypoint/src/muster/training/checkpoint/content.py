"""How a state is written into a file, and read from it. Effects: the file; imports torch where it is used.

.bin   bytes, as they are
.pt    anything else, by torch.save, where the script has imported torch
.pkl   anything else, by pickle, where it has not
"""

from __future__ import annotations

import pickle
import sys
from typing import Any, BinaryIO

from muster.training.checkpoint.place import CheckpointError


def kind_of(state: object) -> str:
    """How this state is written: bin, pt or pkl."""
    if isinstance(state, bytes):
        return "bin"
    return "pt" if "torch" in sys.modules else "pkl"


def write(state: object, file: BinaryIO) -> None:
    """Writes the state as its kind has it."""
    if isinstance(state, bytes):
        file.write(state)
    elif kind_of(state) == "pt":
        import torch  # noqa: PLC0415  (the script has it already)

        torch.save(state, file)
    else:
        pickle.dump(state, file, protocol=pickle.HIGHEST_PROTOCOL)


def read(path: str, *, weights_only: bool = True) -> Any:
    """The state in a file, its tensors on the CPU.

    Args:
        path: the file; the end of its name says how it was written.
        weights_only: as torch.load has it: only tensors and plain data, which runs no code.

    Raises:
        CheckpointError: it can't be read.
    """
    kind = path.rpartition(".")[2]
    try:
        with open(path, "rb") as file:
            if kind == "bin":
                return file.read()
            if kind == "pkl":
                return pickle.load(file)  # noqa: S301  (the job's own folder; docs/checkpoints.md says so)
        import torch  # noqa: PLC0415  (heavy)

        return torch.load(path, map_location="cpu", weights_only=weights_only)
    except Exception as error:
        more = ""
        if isinstance(error, pickle.UnpicklingError) and weights_only and kind == "pt":
            more = " (load(step, weights_only=False) reads any object, and runs code of the file)"
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise CheckpointError(f"{path} can't be read: {said}{more}") from error
