"""Which of a host's GPUs the job's programs use: NVML shows all, CUDA those of CUDA_VISIBLE_DEVICES. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.check.gpu.facts import Gpu

_FIRST = "GPU-"
_SLICE = "MIG-"


@dataclass(frozen=True)
class Visible:
    """The GPUs that count."""

    gpus: tuple[Gpu, ...] = ()
    missing: str = ""
    """The first entry of CUDA_VISIBLE_DEVICES that names none: CUDA reads no further."""
    note: str = ""
    """Why it isn't clear which ones are meant."""


def visible(gpus: Sequence[Gpu], env: Mapping[str, str]) -> Visible:
    """The GPUs that CUDA would show to a program with these variables.

    A number counts GPUs as CUDA does, which is NVML's order only where all are of a kind, or
    CUDA_DEVICE_ORDER says so: elsewhere all of them count.
    """
    chosen = env.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return Visible(tuple(gpus))
    entries = [entry.strip() for entry in chosen.split(",")]
    numbered = any(entry.isdigit() for entry in entries)
    kinds = {gpu.name for gpu in gpus if isinstance(gpu.name, str)}
    if numbered and len(kinds) > 1 and env.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        note = "CUDA_VISIBLE_DEVICES has numbers, and the GPUs are of several kinds"
        return Visible(tuple(gpus), note=note)
    found: list[Gpu] = []
    for entry in entries:
        named = _named(entry, gpus)
        if not named:
            # Nothing, and -1, are how people say: none.
            return Visible(tuple(found), missing="" if entry in ("", "-1") else entry)
        found += [gpu for gpu in named if gpu not in found]
    return Visible(tuple(found))


def _named(entry: str, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The GPUs that an entry may mean; an UUID may be shortened as long as it names one."""
    if entry.isdigit():
        return tuple(gpu for gpu in gpus if gpu.index == int(entry))
    if entry.startswith(_SLICE):
        return tuple(gpu for gpu in gpus if gpu.mig == 1)
    if not entry.startswith(_FIRST):
        return ()
    named = [gpu for gpu in gpus if isinstance(gpu.uuid, str) and gpu.uuid.startswith(entry)]
    # A lost GPU may not even tell its name.
    nameless = [gpu for gpu in gpus if not isinstance(gpu.uuid, str)]
    return tuple(named or nameless) if len(named) <= 1 else ()
