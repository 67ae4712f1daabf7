"""One independent process a host, without any launcher. Pure."""

from __future__ import annotations

from muster.plan.start import Start


def command(start: Start) -> tuple[str, ...]:
    """The argv in front of the rank's own command: the shim alone."""
    return start.facts.shim
