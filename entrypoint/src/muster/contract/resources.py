"""Hosts, groups and the interface between them, from resourceconfig.json. Pure.

Only `current_host` and `hosts` are certain to be there (contract.md 1.3): local
mode has no groups, jobs of 2020 have no instance type, `topology` may be null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.contract.exportable import refuse_unexportable
from muster.errors import ContractError
from muster.model import Group

_HOMOGENEOUS = "homogeneousCluster"
_FILE = "resourceconfig.json"


@dataclass(frozen=True)
class Resources:
    """The cluster as one host is told about it."""

    current_host: str
    hosts: tuple[str, ...]
    instance_type: str
    group: str
    groups: tuple[Group, ...]
    note: str | None = None
    """A line for the log when the current host stands in the list under another name."""


def natural_key(host: str) -> tuple[tuple[int, int | str], ...]:
    """Sorts algo-2 before algo-10. The platform's own order is lexicographic."""
    parts = re.split(r"(\d+)", host)
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts if part)


def read_resources(config: Mapping[str, Any], fallback_host: str) -> Resources:
    """The cluster in `config`; a cluster of one, named `fallback_host`, when it is empty.

    Raises:
        ContractError: a host list that is not a list of names, or a current host
            that is not on it.
    """
    if not config:
        return Resources(fallback_host, (fallback_host,), "local", _HOMOGENEOUS, ())
    hosts = _names(config.get("hosts"), "hosts")
    current = config.get("current_host")
    if not isinstance(current, str) or not current:
        raise ContractError(f"{_FILE} has no current_host")
    hosts = hosts or (current,)
    own = _find(current, hosts)
    if is_lonely_follower(hosts):
        what = f"{_FILE} lists {own} as the only host: the others are missing from it"
        raise ContractError(what, "All hosts of a job are given the same list.")
    groups = _groups(config.get("instance_groups"))
    instance_type = str(config.get("current_instance_type") or "local")
    group = str(config.get("current_group_name") or _HOMOGENEOUS)
    members = (host for group in groups for host in group.hosts)
    for text in (*hosts, *members, instance_type, group):
        refuse_unexportable(f"{_FILE}: a name", text, "SageMaker writes no such file by itself.")
    return Resources(
        current_host=own,
        # The name itself decides between a-1 and a-01, so that all hosts agree.
        hosts=tuple(sorted(set(hosts), key=lambda host: (natural_key(host), host))),
        instance_type=instance_type,
        group=group,
        groups=groups,
        note=None if own == current else f"{_FILE}: current_host {current} is taken for {own}",
    )


def _find(current: str, hosts: tuple[str, ...]) -> str:
    """The name in `hosts` that means the current host.

    Names of hosts have no case, and either name may lack its domain, as long as it is clear
    which host is meant: one that took another's place would be worse than an error.
    """
    if current in hosts:
        return current
    alike = [host for host in hosts if _mean_the_same(host.casefold(), current.casefold())]
    if len(alike) == 1:
        return alike[0]
    listed = ", ".join(hosts)
    raise ContractError(f"{_FILE}: current_host {current} is not in hosts ({listed})")


def is_lonely_follower(hosts: Sequence[str]) -> bool:
    """Whether the list must be wrong: a job of one host has algo-1.

    Alone, algo-2 would train a model that nobody asked for.
    """
    match = re.fullmatch(r"algo-(\d+)", hosts[0])
    return len(hosts) == 1 and match is not None and int(match[1]) > 1


def _mean_the_same(one: str, other: str) -> bool:
    short, long = sorted((one.rstrip("."), other.rstrip(".")), key=len)
    return short == long or long.startswith(f"{short}.")


def choose_interface(
    config: Mapping[str, Any], present: Sequence[str], towards_others: Callable[[], str]
) -> tuple[str, str | None]:
    """The interface between the hosts, and a note when it is not the one that was named.

    The file names `ethwe` in some local modes where only `eth0` exists: a name that
    does not exist here must not reach NCCL or Gloo, so it is replaced by the only other
    interface, by the one that leads to the other hosts where there are several, or by nothing.

    Args:
        config: resourceconfig.json.
        present: the interfaces of this host.
        towards_others: finds the one that leads to the other hosts; may take its time.
    """
    named = str(config.get("network_interface_name") or "")
    if named in present:
        return named, None
    others = [name for name in present if name != "lo"]
    chosen = others[0] if len(others) == 1 else towards_others() if others else ""
    if not named:
        return chosen, None
    used = chosen or "the system's own choice"
    return chosen, f"{_FILE} names interface {named}, which is not on this host: using {used}"


def _names(value: Any, key: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise ContractError(f"{_FILE}: {key} must be a list of host names")
    return tuple(value)


def _groups(value: Any) -> tuple[Group, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(
        Group(
            str(item.get("instance_group_name") or ""),
            str(item.get("instance_type") or ""),
            _names(item.get("hosts"), "instance_groups.hosts"),
        )
        for item in value
        if isinstance(item, dict)
    )
