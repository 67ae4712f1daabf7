"""Variables about the checks before the ranks begin."""

from __future__ import annotations

from muster.variables import Setting, one_of, severities

LEVELS = ("off", "fast", "full")

CHECK: dict[str, Setting] = {
    "check": Setting(
        "MUSTER_CHECK",
        one_of(LEVELS),
        "fast",
        "one of " + ", ".join(LEVELS),
        "What is looked at before the ranks begin (docs/checks.md).",
    ),
    "severities": Setting(
        "MUSTER_CHECKS",
        severities,
        {},
        "CHECK=off, CHECK=warn or CHECK=fail, with commas",
        "What single checks may do: host.shm=off,gpu.clocks=fail.",
    ),
}
