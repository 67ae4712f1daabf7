"""What NVML says of this host's GPUs, as the checks have it: each fact is a value, or why there is none. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, Union

T = TypeVar("T")

_ABSENT = frozenset({"NotSupported", "FunctionNotFound"})
_LOST = frozenset({"GpuIsLost", "ResetRequired"})
_BASIC = ("handle", "name", "uuid", "memory")
"""What every GPU that works answers: an unknown error here is no mere lack of a feature."""


@dataclass(frozen=True)
class Missing:
    """A fact that NVML has not given."""

    error: str
    """The error's name in NVML: NotSupported, GpuIsLost."""

    @property
    def absent(self) -> bool:
        """Whether this GPU, or its driver, has nothing of the kind."""
        return self.error in _ABSENT


NOT_ASKED = Missing("NotAsked")
Fact = Union[T, Missing]  # noqa: UP007  (an alias with a parameter, on Python 3.10)


@dataclass(frozen=True)
class Gpu:
    """One GPU. Its facts have the names that the probe gives them."""

    index: int
    """NVML's: in the order of PCI."""
    handle: Fact[int] = NOT_ASKED
    """Whether NVML has let the GPU be asked at all."""
    name: Fact[str] = NOT_ASKED
    uuid: Fact[str] = NOT_ASKED
    bus: Fact[str] = NOT_ASKED
    capability: Fact[tuple[int, int]] = NOT_ASKED
    ecc_mode: Fact[int] = NOT_ASKED
    """1: on."""
    uncorrected: Fact[int] = NOT_ASKED
    """ECC errors since the driver was loaded that lost data."""
    corrected: Fact[int] = NOT_ASKED
    """Those that did not."""
    remapped: Fact[tuple[int, int, int, int]] = NOT_ASKED
    """Rows of memory that were replaced: after correctable and after uncorrectable errors; whether
    one waits for a reset; whether one has failed."""
    spare: Fact[tuple[int, int, int, int, int]] = NOT_ASKED
    """Banks of memory by what they have left for that: all, much, some, little, none."""
    retired: Fact[int] = NOT_ASKED
    """Pages taken out of use, on GPUs older than the A100."""
    retiring: Fact[int] = NOT_ASKED
    """1: one waits for a restart."""
    recovery: Fact[int] = NOT_ASKED
    """What the driver asks for (NVML_GPU_RECOVERY_ACTION); 0 for nothing."""
    clocks: Fact[int] = NOT_ASKED
    """Why clocks are lower than they could be, as a mask."""
    temperature: Fact[int] = NOT_ASKED
    slowdown: Fact[int] = NOT_ASKED
    """Degrees Celsius, both; at the second the GPU slows down."""
    persistence: Fact[int] = NOT_ASKED
    links: Fact[tuple[int, ...]] = NOT_ASKED
    """The NVLinks that it has: 1 for one that is up."""
    link_errors: Fact[tuple[int, int, int]] = NOT_ASKED
    """Replays, recoveries, and wrong checksums of all of them, since the driver was loaded."""
    fabric: Fact[tuple[int, int, int]] = NOT_ASKED
    """NVSwitch: state (3: joined), status, and health as a mask."""
    pcie: Fact[tuple[int, int, int, int]] = NOT_ASKED
    """Generation now and at most, width now and at most."""
    memory: Fact[tuple[int, int]] = NOT_ASKED
    """Bytes in use, without what the driver keeps for itself, and in all."""
    processes: Fact[tuple[tuple[int, int], ...]] = NOT_ASKED
    """Who computes on it: process and bytes, 0 where that isn't told."""
    mig: Fact[int] = NOT_ASKED

    @property
    def lost(self) -> str:
        """The error by which the GPU is known to be gone; empty for one that answers."""
        for name in FACTS:
            fact = getattr(self, name)
            unknown = name in _BASIC and isinstance(fact, Missing) and fact.error == "Unknown"
            if isinstance(fact, Missing) and (fact.error in _LOST or unknown):
                return fact.error
        return ""

    @property
    def title(self) -> str:
        """Its number, and the names by which it is known elsewhere."""
        names = [name for name in (self.uuid, self.bus) if isinstance(name, str)]
        return f"GPU {self.index}" + (f" ({', '.join(names)})" if names else "")


FACTS = tuple(field.name for field in dataclasses.fields(Gpu) if field.name != "index")


def unpack(index: int, told: Mapping[str, Any]) -> Gpu:
    """The GPU in what the probe has printed. One that can't be asked has the same error everywhere."""
    handle = fact(told.get("handle", {"error": "NotAsked"}))
    if isinstance(handle, Missing):
        return Gpu(index, **dict.fromkeys(FACTS, handle))
    return Gpu(index, **{name: fact(told[name]) for name in FACTS if name in told})


def fact(told: Any) -> Any:
    """One value as the probe prints it, lists as tuples; {"error": name} for one that is missing."""
    if isinstance(told, dict):
        return Missing(str(told.get("error")))
    if isinstance(told, list):
        return tuple(fact(one) for one in told)
    return told
