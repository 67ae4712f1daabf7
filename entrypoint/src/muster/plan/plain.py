"""One independent process a host, without any launcher. Pure."""

from __future__ import annotations

from muster.plan.facts import Facts
from muster.plan.topology import Topology


def command(_topology: Topology, facts: Facts, _master_addr: str) -> tuple[str, ...]:
    """The argv in front of the rank's own command: the shim alone."""
    return facts.shim
