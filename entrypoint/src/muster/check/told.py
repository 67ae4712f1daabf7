"""What each host tells of itself, for the comparison of all. Effects: those of the looks that it repeats."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.check.fabric import devices
from muster.check.finding import Here
from muster.check.packages import versions
from muster.check.reading import text


@dataclass(frozen=True)
class Network:
    """A host's interface, and what came of its calls."""

    interface: str
    address: str
    mtu: int
    trouble: str = ""
    """Why it could not take part."""
    reached: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds to each host that has answered."""
    failed: Mapping[str, tuple[str, int, str]] = field(default_factory=dict)
    """Address, port and reason of each that has not."""
    callers: Mapping[str, str] = field(default_factory=dict)
    """The addresses from which others have called."""
    called: bool = False
    """Whether it took part at all."""

    @classmethod
    def unpack(cls, value: Mapping[str, Any]) -> Network:
        """Raises ValueError, TypeError, KeyError, AttributeError, OverflowError."""
        reached = {str(peer): float(took) for peer, took in value.get("reached", {}).items()}
        failed = {
            str(peer): (str(address), int(port), str(why))
            for peer, (address, port, why) in value.get("failed", {}).items()
        }
        callers = {str(peer): str(source) for peer, source in value.get("callers", {}).items()}
        return cls(
            str(value["interface"]),
            str(value["address"]),
            int(value["mtu"]),
            str(value.get("trouble", "")),
            reached,
            failed,
            callers,
            "reached" in value,
        )


@dataclass(frozen=True)
class Told:
    """One host, as the leader knows it."""

    group: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] | None = ()
    """What each is, as the driver calls it; nameless where it doesn't tell. None where nobody could count them."""
    efa: int = 0
    name: str = ""
    """What NCCL knows a host by: its name and its boot, or NCCL_HOSTID."""
    network: Network | None = None

    @classmethod
    def unpack(cls, value: Any) -> Told:
        """What a host has told. Raises ValueError, TypeError, KeyError, AttributeError, OverflowError."""
        network = value.get("network")
        return cls(
            str(value["group"]),
            {str(name): str(version) for name, version in value["versions"].items()},
            None if value["gpus"] is None else tuple(map(str, value["gpus"])),
            int(value["efa"]),
            str(value["name"]),
            Network.unpack(network) if network else None,
        )


def understood(data: Mapping[str, Any]) -> dict[str, Told]:
    """What all hosts have told; those that have told nothing, or what makes no sense, are left out. Pure."""
    found = {}
    for host, value in data.items():
        try:
            found[host] = Told.unpack(value)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            continue
    return found


def tell(here: Here) -> dict[str, Any]:
    """This host's part, but for the network."""
    return {
        "group": here.job.group,
        # Anew: what the job brings was installed while the checks ran.
        "versions": versions(here),
        "gpus": gpu_names(here),
        "efa": len(devices(here)),
        "name": here.env.get("NCCL_HOSTID") or f"{socket.gethostname()} {_boot(here.proc)}",
    }


def gpu_names(here: Here) -> list[str] | None:
    """One a GPU of this container, by the driver's own files; NVML is the GPU checks' business.

    None where a driver is here and has told of no GPU: it may not answer.
    """
    if not here.job.machine.gpus and os.path.exists(f"{here.dev}/nvidiactl"):
        return None
    folder = f"{here.proc}/driver/nvidia/gpus"
    try:
        files = sorted(os.listdir(folder))
    except OSError:
        files = []
    named = [_model(f"{folder}/{name}/information") for name in files]
    count = here.job.machine.gpus
    # All of the host's are listed there, also those that the container does not have.
    return (named + [""] * count)[:count]


def _model(path: str) -> str:
    lines = text(path).splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("Model")), "")


def _boot(proc: str) -> str:
    return text(f"{proc}/sys/kernel/random/boot_id").strip()
