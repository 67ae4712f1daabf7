"""What an XID error means: whether it is the machine, or the program that ran on it. Pure.

The classes follow AWS's eks-node-monitoring-agent and gpu-cluster-healthcheck, Azure's cyclecloud-healthagent and NVIDIA's
k8s-device-plugin; where they disagree, the milder one is taken. NVIDIA lists the numbers at
https://docs.nvidia.com/deploy/xid-errors/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["hardware", "suspect", "application", "note"]

HARDWARE = frozenset(
    {48, 54, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 142, 143, 151, 155, 156, 158, 168}
)
SUSPECT = frozenset({46, 109})
"""Often the machine, sometimes a program that hangs."""
APPLICATION = frozenset({13, 31, 43, 45, 68, 94, 126})
NOTE = frozenset({63, 92, 121, 154, *range(144, 151)})

XID = 0x8
UNAVAILABLE = 0x4000
RECOVERY = 0x8000
RETIREMENT = 0x400
RETIREMENT_FAILED = 0x800
EVENTS = XID | RETIREMENT | RETIREMENT_FAILED | UNAVAILABLE | RECOVERY
"""nvmlEventType of nvml.h, as a mask."""

_NAMES = {
    13: "an error in a kernel",
    31: "an access to memory that isn't there",
    43: "a program that was stopped",
    45: "a program's channels cleared away",
    48: "an uncorrectable error in memory",
    63: "a row of memory replaced",
    64: "a row of memory that could not be replaced",
    74: "an NVLink error",
    79: "the GPU has fallen off the bus",
    92: "many corrected errors in memory",
    94: "an uncorrectable error that hit one program",
    95: "an uncorrectable error that may have hit all programs",
    109: "a program that did not yield in time",
    119: "the GPU's own processor does not answer",
    120: "an error of the GPU's own processor",
}
"""In words, where NVIDIA's text says little to who does not know the driver."""
_REMEDY: dict[Kind, str] = {
    "hardware": "Replace this instance: start the job again, so that it gets another one.",
    "suspect": "It may be the machine: if it comes again on the same instance, replace that.",
    "application": "It is your kernel, not the machine: CUDA_LAUNCH_BLOCKING=1 shows where it was called.",
    "note": "",
}


@dataclass(frozen=True)
class Event:
    """What NVML has told while the ranks ran."""

    index: int
    """The GPU's number in NVML; -1 where that isn't known."""
    uuid: str
    type: int
    """nvmlEventType: XID, UNAVAILABLE and so on."""
    number: int
    """The XID's number; else whatever came along."""
    time: float
    """Seconds since the epoch."""


@dataclass(frozen=True)
class Meaning:
    """What to make of an event, and what to tell the user."""

    kind: Kind
    headline: str
    """One line: what, on which GPU."""
    remedy: str
    """Empty for a note."""


def classify(number: int) -> Kind:
    """The class of an XID error; one that nobody knows is only noted."""
    if number in HARDWARE:
        return "hardware"
    if number in SUSPECT:
        return "suspect"
    return "application" if number in APPLICATION else "note"


def meaning(event: Event) -> Meaning:
    """What an event means. Only `hardware` says that the instance is to be replaced."""
    gpu = f"GPU {event.index}" if event.index >= 0 else "a GPU"
    named = f"{gpu} ({event.uuid})" if event.uuid else gpu
    kind, what = _told(event)
    return Meaning(kind, f"{what} on {named}", _REMEDY[kind])


def _told(event: Event) -> tuple[Kind, str]:
    if event.type == XID:
        name = _NAMES.get(event.number)
        return classify(event.number), f"XID {event.number}" + (f": {name}" if name else "")
    if event.type == UNAVAILABLE:
        return "hardware", "hardware that can't be used any more (GPU_IS_LOST)"
    if event.type == RETIREMENT_FAILED:
        return "hardware", "memory that could not be replaced"
    if event.type == RETIREMENT:
        return "note", "memory that was replaced"
    if event.type == RECOVERY:
        return "note", "the driver asks for a recovery action"
    return "note", f"NVML event {event.type:#x}"
