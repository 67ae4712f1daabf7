"""What EFA has had to send again, or has lost, while ranks talked to each other. Effects: `read` looks at /sys; `grown` is pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.check.fabric import efa_devices
from muster.check.finding import Finding, Here, passed, skipped, unknown
from muster.check.reading import names, text

LIMITS: Mapping[str, float] = {
    "rx_drops": 0,
    "rdma_write_wr_err": 0,
    "rdma_read_wr_err": 0,
    "unresponsive_remote_events": 0,
    "impaired_remote_conn_events": 0,
    "retrans_timeout_events": 100,
    "retrans_pkts": 1000,
    "retrans_bytes": 1_000_000,
}
"""How much each may grow in a second; those with 0 never may. From AWS's eks-node-monitoring-agent."""
_SHOWN = 4
_REMEDY = (
    "A link of this host, or a host that it talks to, is weak: collectives may be slow. If the same host has it "
    "again, start the job again elsewhere; MUSTER_EFA=off goes on over TCP."
)


@dataclass(frozen=True)
class Counters:
    """What a host's devices have counted by now."""

    devices: tuple[str, ...] = ()
    values: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    """By device, port and name; those that the driver has."""


def snapshot(here: Here) -> Counters:
    """This host's counters, as they are now."""
    return read(here.sys)


def read(sys: str) -> Counters:
    """The counters below /sys of devices that are EFA by vendor and device."""
    found: dict[tuple[str, str, str], int] = {}
    devices = efa_devices(sys)
    for device in devices:
        ports = f"{sys}/class/infiniband/{device}/ports"
        for port in sorted(names(ports)):
            for name in LIMITS:
                value = text(f"{ports}/{port}/hw_counters/{name}").strip()
                if value.isdecimal():
                    found[device, port, name] = int(value)
    return Counters(devices, found)


def grown(before: Counters, after: Counters, seconds: float) -> Finding:
    """What has grown by more than it may between two looks.

    Args:
        before: the first look.
        after: the second.
        seconds: between them.
    """
    if not before.devices:
        return skipped("no EFA here")
    gone = [f"{device} has gone" for device in before.devices if device not in after.devices]
    both = [key for key in before.values if key in after.values]
    if not gone and not both:
        return unknown("EFA's error counters can't be read")
    over = gone + [
        _told(key, growth, seconds)
        for key in both
        if (growth := _growth(before.values[key], after.values[key]))
        and growth > LIMITS[key[-1]] * seconds
    ]
    span = f"EFA in {seconds:.0f} s"
    if not over:
        return passed(f"{span}: no errors on {len(before.devices)} devices")
    more = f"; {len(over) - _SHOWN} more" if len(over) > _SHOWN else ""
    return Finding("WARN", f"{span}: {'; '.join(over[:_SHOWN])}{more}", _REMEDY)


def _growth(then: int, now: int) -> int:
    """A device that was reset meanwhile has begun at 0."""
    return now - then if now >= then else now


def _told(key: tuple[str, str, str], growth: int, seconds: float) -> str:
    device, port, name = key
    rate = f", {growth / seconds:.0f}/s" if LIMITS[name] and seconds > 0 else ""
    return f"{device} port {port}: {name} +{growth}{rate}"
