"""What the leader knows of each host. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from muster.channel.agreement import HostFacts
from muster.model import Cause

SILENT = "has not called"
"""What is known of a missing host at least."""
NAMED = 4
"""Hosts that a text names; a job may have 500."""


@dataclass
class HostState:
    """How far one host has come."""

    name: str
    joined: bool = False
    ready: bool = False
    over: bool = False
    """Whether its ranks are, or it has failed before it had any."""
    reported: bool = False
    lost: bool = False
    forgotten: bool = False
    """Whether nobody waits for it any more; it may still come, and is then told so."""
    offset: float = 0.0
    """Seconds that its clock is ahead of the leader's."""
    facts: HostFacts | None = None
    launcher: str = ""
    cause: Cause | None = None
    done: int = 0
    """Ranks that have ended well."""
    living: int = 0
    stacks: list[str] = field(default_factory=list)
    """Where its last ranks were, when they were asked."""


class Roster:
    """The hosts of a job.

    Args:
        names: in the job's order; the first leads.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._hosts = {name: HostState(name) for name in names}
        self.leader = names[0]

    def __getitem__(self, name: str) -> HostState:
        return self._hosts[name]

    def __contains__(self, name: str) -> bool:
        return name in self._hosts

    def __iter__(self) -> Iterator[HostState]:
        return iter(self._hosts.values())

    def __len__(self) -> int:
        return len(self._hosts)

    @property
    def missing(self) -> list[str]:
        """Those that have not joined, in order."""
        return [host.name for host in self if not host.joined]

    @property
    def unready(self) -> list[str]:
        """Those that are not ready for the ranks, in order."""
        return [host.name for host in self if not host.ready]

    @property
    def all_well(self) -> bool:
        """Whether all are here, know their job, and nothing has happened to any."""
        return all(host.facts and not (host.lost or host.over or host.cause) for host in self)

    @property
    def all_gone(self) -> bool:
        """Whether nothing more can come of any before the verdict."""
        return all(host.over or host.lost or host.forgotten for host in self)

    @property
    def all_reported(self) -> bool:
        return all(host.reported or host.lost or host.forgotten for host in self)

    def forget_missing(self) -> None:
        """Nobody waits any more for hosts that have not come yet."""
        for name in self.missing:
            self[name].forgotten = True

    def facts(self) -> dict[str, HostFacts]:
        """The facts of those that have told them."""
        return {host.name: host.facts for host in self if host.facts}

    def causes(self) -> list[Cause]:
        """Why they failed, those that have."""
        return [host.cause for host in self if host.cause]

    def different_launchers(self) -> str:
        """Two hosts of the world that would start different launchers; else empty."""
        world = [host for host in self if host.facts and host.name in host.facts.world]
        for host in world:
            if host.launcher != world[0].launcher:
                first = world[0]
                return (
                    f"the launcher differs: {first.name} has {first.launcher}, "
                    f"{host.name} has {host.launcher}"
                )
        return ""


def name_some(names: Sequence[str]) -> str:
    """`algo-1, algo-2 and 14 more`."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def missing_and_why(missing: Sequence[str], reasons: Mapping[str, str]) -> str:
    """`algo-2, algo-3 (has not called); algo-7 (its name does not resolve)`.

    Args:
        missing: hosts, in order.
        reasons: why they are not here, where that is known.
    """
    alike: dict[str, list[str]] = {}
    for name in missing:
        alike.setdefault(reasons.get(name, SILENT), []).append(name)
    # The rare reason says more than that of hundreds.
    parts = sorted(alike.items(), key=lambda item: len(item[1]))
    return "; ".join(f"{name_some(names)} ({why})" for why, names in parts[:NAMED])
