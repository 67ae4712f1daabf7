"""Whether the hosts of a job describe the same job. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from muster.channel.wire import WireError

_NAMED = 4
"""Names of a long list that a message shows."""


@dataclass(frozen=True)
class HostFacts:
    """What a host tells of itself when it joins."""

    hosts: tuple[str, ...]
    world: tuple[str, ...]
    """The hosts whose ranks train together."""
    group: str
    nproc: int
    muster: str
    image: str
    """What names the image's content; empty outside an image."""
    torch: str
    """The version that the script will find; empty when that isn't known."""
    interface: str
    address: str
    """Of that interface; empty when there is none."""
    master_port: int
    """The port on which the ranks could meet, if this host leads the world."""

    def pack(self) -> dict[str, Any]:
        """The facts as they travel."""
        return asdict(self) | {"hosts": list(self.hosts), "world": list(self.world)}

    @classmethod
    def unpack(cls, value: Any) -> HostFacts:
        """The facts in a message.

        Raises:
            WireError: they are none.
        """
        fields = {"hosts": list, "world": list, "nproc": int, "master_port": int}
        names = cls.__dataclass_fields__
        if not isinstance(value, dict) or value.keys() != names.keys():
            raise WireError("facts with other fields")
        if not all(isinstance(value[name], fields.get(name, str)) for name in names):
            raise WireError("facts with a wrong field")
        if not all(isinstance(host, str) for host in (*value["hosts"], *value["world"])):
            raise WireError("facts with a wrong list of hosts")
        # 512 hosts send the same 512 names each: interned, they are kept once.
        lists = {name: tuple(map(sys.intern, value[name])) for name in ("hosts", "world")}
        return cls(**(value | lists))


def disagreement(facts: Mapping[str, HostFacts]) -> str:
    """The first thing in which two hosts differ, naming both; empty when they agree.

    Args:
        facts: by host, in the job's order.
    """
    first, *others = facts
    for what, attribute in (
        ("the list of hosts", "hosts"),
        ("the hosts that train together", "world"),
        ("muster", "muster"),
        ("the image", "image"),
        ("torch", "torch"),
    ):
        expected = getattr(facts[first], attribute)
        for other in others:
            found = getattr(facts[other], attribute)
            if found != expected:
                return _differ(what, first, expected, other, found)
    return _uneven(facts)


def _uneven(facts: Mapping[str, HostFacts]) -> str:
    """Hosts of one group have the same GPUs, or one of them has lost some."""
    leaders: dict[str, str] = {}
    for host, mine in facts.items():
        if host not in mine.world:
            continue
        first = leaders.setdefault(mine.group, host)
        expected = facts[first].nproc
        if mine.nproc != expected:
            return _differ("the number of ranks a host", first, expected, host, mine.nproc)
    return ""


def _differ(what: str, first: str, expected: Any, other: str, found: Any) -> str:
    text = f"{what} differs: {first} has {_shown(expected)}, {other} has {_shown(found)}"
    if not isinstance(expected, tuple):
        return text
    only = {first: set(expected) - set(found), other: set(found) - set(expected)}
    named = [
        f"only {host} has {_shown(tuple(sorted(more)))}" for host, more in only.items() if more
    ]
    return f"{text}: {', '.join(named)}" if named else text


def _shown(value: Any) -> str:
    if not isinstance(value, tuple):
        return str(value) or "none"
    more = "" if len(value) <= _NAMED else f" … ({len(value)} hosts)"
    return (", ".join(value[:_NAMED]) + more) if value else "none"


def notes(facts: Mapping[str, HostFacts]) -> tuple[str, ...]:
    """What is odd, and may still be right."""
    interfaces: dict[str, list[str]] = {}
    for host, mine in facts.items():
        interfaces.setdefault(mine.interface, []).append(host)
    if len(interfaces) == 1:
        return ()
    named = "; ".join(f"{name or 'none'} on {_shown(tuple(on))}" for name, on in interfaces.items())
    return (f"the interfaces between the hosts differ: {named}",)


def nprocs(facts: Mapping[str, HostFacts], world: Sequence[str]) -> tuple[int, ...]:
    """Ranks a host, in the world's order."""
    return tuple(facts[host].nproc for host in world)
