"""What only a comparison of hosts shows: versions, GPUs, EFA, clocks, names. Pure.

The first host makes it, from what all have told (told.py). A result names the host that differs from most, or honestly both
where there are two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from muster.check.alike import differing, named
from muster.check.finding import Check, Finding, Result, by_all, passed, skipped, unknown
from muster.check.interface import CLOCK_S
from muster.check.reached import Networks, judge_mtu, judge_path, judge_reach
from muster.check.remedies import CLOCKS, NAMES, SAME_MACHINES, SAME_SOFTWARE
from muster.check.told import Network, Told

Value = TypeVar("Value")
_GRAVE = ("torch", "NCCL", "plugin")
"""Where these differ, ranks hang or compute different things."""
_OF_MACHINES = ("driver",)
"""What is the instance's, not the image's: groups of other instances may have another one."""


@dataclass(frozen=True)
class Hosts:
    """All hosts of the job, as the leader knows them, in the job's order."""

    told: Mapping[str, Told]
    """Those that have told something."""
    offsets: Mapping[str, float]
    """Seconds that each clock is ahead of the leader's."""


Judged = tuple[str, Finding]
"""The host that a finding is about, and the finding."""


def compare(hosts: Hosts, names: Sequence[str]) -> list[tuple[str, Result]]:
    """The results of the comparing checks in `names`, each with its host."""
    results = []
    for name in names:
        host, found = _judged(name, hosts)
        # What a host says of another may be of one that there is not.
        host = host if host in hosts.told else next(iter(hosts.told))
        results.append((host, Result(name, found.status, found.evidence, found.remedy, 0.0)))
    return results


def _judged(name: str, hosts: Hosts) -> Judged:
    first = next(iter(hosts.told))
    if len(hosts.told) == 1:
        return first, skipped("nobody to compare with")
    return JUDGES[name](hosts)


def _versions(hosts: Hosts, name: str) -> tuple[str, str]:
    """The first host with another version, and all in words; both empty where they are the same."""
    if name in _OF_MACHINES:
        return _within_groups(hosts, lambda told: told.versions.get(name, "none"), str)
    return differing(
        {host: told.versions.get(name, "none") for host, told in hosts.told.items()}, str
    )


def _software(hosts: Hosts) -> Judged:
    first = next(iter(hosts.told))
    names = dict.fromkeys(name for told in hosts.told.values() for name in told.versions)
    if not names:
        return first, skipped("no host knows a version")
    found: dict[str, tuple[str, str]] = {}
    for name in names:
        culprit, text = _versions(hosts, name)
        if culprit:
            found[name] = culprit, text
    if not found:
        return first, passed(f"{len(names)} versions are the same on {len(hosts.told)} hosts")
    grave = [name for name in found if name in _GRAVE]
    order = [*grave, *(name for name in found if name not in _GRAVE)]
    evidence = "; ".join(f"{name}: {found[name][1]}" for name in order)
    return found[order[0]][0], Finding("FAIL" if grave else "WARN", evidence, SAME_SOFTWARE)


def _within_groups(
    hosts: Hosts, value: Callable[[Told], Value], show: Callable[[Value], str]
) -> tuple[str, str]:
    """The first difference between hosts of one instance group."""
    groups: dict[str, dict[str, Value]] = {}
    for host, told in hosts.told.items():
        groups.setdefault(told.group, {})[host] = value(told)
    differences = [differing(values, show) for values in groups.values()]
    return next((found for found in differences if found[0]), ("", ""))


def _gpus(hosts: Hosts) -> Judged:
    first = next(iter(hosts.told))
    counted = {host: told for host, told in hosts.told.items() if told.gpus is not None}
    silent = [host for host in hosts.told if host not in counted]
    hosts = replace(hosts, told=counted)
    host, text = _within_groups(
        hosts, lambda told: len(told.gpus or ()), lambda count: f"{count} GPUs"
    )
    if host:
        return host, Finding("FAIL", text, SAME_MACHINES)
    host, text = _within_groups(hosts, lambda told: tuple(sorted(told.gpus or ())), _kinds)
    if host:
        return host, Finding("WARN", text, SAME_MACHINES)
    if silent:
        return silent[0], unknown(f"the driver of {', '.join(silent)} has told of no GPU")
    counts = sorted({len(told.gpus or ()) for told in hosts.told.values()})
    if counts == [0]:
        return first, skipped("no host has GPUs")
    kinds = sorted({kind for told in hosts.told.values() for kind in told.gpus or () if kind})
    return first, passed(
        f"{' or '.join(map(str, counts))} GPUs a host: {', '.join(kinds) or 'kind unknown'}"
    )


def _kinds(kinds: tuple[str, ...]) -> str:
    return ", ".join(dict.fromkeys(kind or "an unknown GPU" for kind in kinds)) or "none"


def _efa(hosts: Hosts) -> Judged:
    first = next(iter(hosts.told))
    host, text = _within_groups(hosts, lambda told: told.efa, lambda count: f"{count} EFA devices")
    if host:
        return host, Finding("FAIL", text, SAME_MACHINES)
    if not any(told.efa for told in hosts.told.values()):
        return first, skipped("no host has EFA")
    return first, passed("the same number of EFA devices on all hosts of a group")


def _clocks(hosts: Hosts) -> Judged:
    offsets = {host: hosts.offsets[host] for host in hosts.told if host in hosts.offsets}
    first = next(iter(hosts.told))
    if len(offsets) < 2:  # noqa: PLR2004  (two clocks)
        return first, unknown("the clocks were not compared")
    ordered = sorted(offsets.values())
    apart, middle = ordered[-1] - ordered[0], ordered[len(ordered) // 2]
    if apart <= CLOCK_S:
        return first, passed(f"the clocks differ by {apart:.3f} s at most")
    if len(offsets) == 2:  # noqa: PLR2004  (neither is known to be right)
        return first, Finding("WARN", f"{' and '.join(offsets)} differ by {apart:.1f} s", CLOCKS)
    odd = {host: off - middle for host, off in offsets.items() if abs(off - middle) > CLOCK_S / 2}
    odd = odd or offsets
    words = [
        f"{host} is {abs(by):.1f} s {'ahead' if by > 0 else 'behind'}" for host, by in odd.items()
    ]
    return next(iter(odd)), Finding("WARN", named(words), CLOCKS)


def _names(hosts: Hosts) -> Judged:
    first = next(iter(hosts.told))
    if not any(told.gpus for told in hosts.told.values()):
        return first, skipped("no host has GPUs")
    alike: dict[str, list[str]] = {}
    for host, told in hosts.told.items():
        alike.setdefault(told.name, []).append(host)
    same = [on for name, on in alike.items() if name and len(on) > 1]
    if not same:
        return first, passed("NCCL can tell all hosts apart")
    text = "; ".join(f"{named(on)} are one host to NCCL" for on in same)
    return same[0][0], Finding("WARN", text, NAMES)


def _of_network(judge: Callable[[Networks], Judged]) -> Callable[[Hosts], Judged]:
    return lambda hosts: judge(networks(hosts.told))


def networks(told: Mapping[str, Told]) -> dict[str, Network]:
    """Those of the hosts that have told of theirs."""
    return {host: each.network for host, each in told.items() if each.network}


JUDGES: Mapping[str, Callable[[Hosts], Judged]] = {
    "net.reach": _of_network(judge_reach),
    "net.path": _of_network(judge_path),
    "net.mtu": _of_network(judge_mtu),
    "net.clocks": _clocks,
    "net.names": _names,
    "efa.same": _efa,
    "gpu.same": _gpus,
    "software.same": _software,
}
"""By the name in the registry."""

CHECKS = (
    Check(
        "gpu.same",
        "fast",
        "The same number and kind of GPUs on all hosts of an instance group",
        by_all,
        limits="FAIL where the number differs, WARN where the kind does",
        source="a host that has lost a GPU is the most frequent fault",
        together=True,
        remedy=SAME_MACHINES,
    ),
)
