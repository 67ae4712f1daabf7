"""All checks, and which of them a job gets. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from muster.check import collective, compare, efa, gpu, host, interface, software, storage
from muster.check.finding import Check, Level
from muster.errors import ContractError

CHECKS: tuple[Check, ...] = (
    *host.CHECKS,
    *gpu.CHECKS,
    *compare.CHECKS,
    *interface.CHECKS,
    *efa.CHECKS,
    *software.CHECKS,
    *storage.CHECKS,
)
"""In the order in which they are shown."""

LATER = collective.CHECKS
"""What needs the plan of the job, and runs after all others."""

OFF = "off"


def chosen(level: Level, severities: Mapping[str, str]) -> tuple[Check, ...]:
    """The checks of a level, without those that are switched off.

    Raises:
        ContractError: MUSTER_CHECKS names one that there is not.
    """
    names = [check.name for check in (*CHECKS, *LATER)]
    for name in severities:
        if name not in names:
            import difflib  # noqa: PLC0415  (3 ms, for a rare case)

            near = difflib.get_close_matches(name, names, n=1)
            what = f"MUSTER_CHECKS names {name!r}, and there is no such check"
            raise ContractError(
                what, f"Did you mean {near[0]}?" if near else "docs/checks.md lists all."
            )
    return tuple(
        check
        for check in CHECKS
        if severities.get(check.name) != OFF and (level == "full" or check.level == "fast")
    )
