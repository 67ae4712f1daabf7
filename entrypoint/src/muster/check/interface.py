"""The interface between the hosts, as this host has it. Effects: looks at /sys, asks the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster.check.evidence import once
from muster.check.finding import Check, Finding, Here, by_all, passed, skipped, unknown
from muster.check.reading import text
from muster.check.remedies import CLOCKS, MTU, NAMES, ONE_ADDRESS, OPEN, TWO_NETWORKS
from muster.contract.machine import address_of

CLOCK_S = 1.0


@dataclass(frozen=True)
class Interface:
    """What is known of it; empty and 0 where it is not."""

    name: str
    address: str
    mtu: int
    state: str
    """As the kernel calls it: up, down, unknown."""

    def pack(self) -> dict[str, Any]:
        """As it travels between hosts."""
        return {"interface": self.name, "address": self.address, "mtu": self.mtu}


def interface(here: Here) -> Interface:
    """This host's, looked at once."""
    return once(here, "net.interface", lambda: _look(here))


def _look(here: Here) -> Interface:
    name = here.job.interface
    if not name:
        return Interface("", "", 0, "")
    folder = f"{here.sys}/class/net/{name}"
    mtu = text(f"{folder}/mtu").strip()
    return Interface(
        name,
        address_of(name),
        int(mtu) if mtu.isdecimal() else 0,
        text(f"{folder}/operstate").strip(),
    )


def several(here: Here) -> bool:
    """Whether this host meets others: with MUSTER_EXEC=1 it does not."""
    return len(here.job.hosts) > 1 and not here.settings.exec_only


def on_one_machine(here: Here) -> bool:
    """Whether this host is known by an address that only this machine has, as in `muster local`."""
    return here.settings.addresses.get(here.job.current_host, "").startswith("127.")


def judge_interface(found: Interface) -> Finding:
    """Whether the ranks could meet over it."""
    if not found.name:
        there = "No interface but the loopback, or no route: look at `ip addr` and `ip route`."
        return Finding("WARN", "no interface between the hosts is known", there)
    if not found.mtu and not found.address:
        return unknown(f"{found.name}: neither /sys nor the kernel tells of it")
    evidence = f"{found.name} {found.address or 'without an address'}, MTU {found.mtu}"
    if not found.address:
        return Finding(
            "WARN", evidence, "NCCL and Gloo are told to use it: give it an IPv4 address."
        )
    if found.state == "down":
        return Finding("FAIL", f"{evidence}, down", "`ip link set UP`, or give the instance back.")
    return passed(evidence)


def _interface(here: Here) -> Finding:
    if not several(here):
        return skipped("one host")
    if on_one_machine(here):
        return skipped("all hosts are on this machine's loopback")
    return judge_interface(interface(here))


CHECKS = (
    Check(
        "net.interface",
        "fast",
        "The interface between the hosts: address, MTU, state",
        _interface,
        limits="FAIL when it is down, WARN without an IPv4 address, or when none is known",
        source="NCCL and Gloo are told to use it; through one that is down nothing comes",
        remedy="Look at `ip addr` and `ip route`: it must be up and have an IPv4 address; or give the instance back.",
    ),
    Check(
        "net.reach",
        "fast",
        "Every host calls every other one by TCP on that interface, all at once (with more than 64 hosts, 32 others each)",
        by_all,
        limits="FAIL for each pair without an answer within 2 s; round trips are told",
        source="a security group that lets only some ports through hangs NCCL and Gloo for minutes",
        together=True,
        remedy=OPEN,
    ),
    Check(
        "net.path",
        "fast",
        "Hosts call from the address of that interface, and no two have the same",
        by_all,
        limits="WARN where a host calls from another address, FAIL where two have the same",
        source="NVIDIA/nccl#1837; a second network is what most such jobs hang on",
        together=True,
        remedy=f"{TWO_NETWORKS} {ONE_ADDRESS}",
    ),
    Check(
        "net.mtu",
        "fast",
        "The same MTU on all hosts",
        by_all,
        limits="WARN where it differs: large packets may get lost",
        source="the way between two MTUs may drop what is larger than the smaller one, in silence",
        together=True,
        remedy=MTU,
    ),
    Check(
        "net.clocks",
        "fast",
        "The clocks of the hosts, by the roll call",
        by_all,
        limits=f"WARN above {CLOCK_S:g} s",
        source="signatures of AWS's requests, and logs that are read side by side",
        together=True,
        remedy=CLOCKS,
    ),
    Check(
        "net.names",
        "fast",
        "No two GPU hosts that NCCL takes for one: it goes by host name and boot",
        by_all,
        limits="WARN where both are the same",
        source="getHostHash in NCCL's src/misc/utils.cc",
        together=True,
        remedy=NAMES,
    ),
)
