"""How fast and how small muster means to be, and whether it was. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tooling.bench.results import Measurement, Results


def _difference(value: float, unit: str) -> str:
    return f"bare {'-' if value < 0 else '+'} {abs(value):.2f} {unit}"


def _ratio(value: float, _: str) -> str:
    return f"{value:.2f} times bare"


def _plain(value: float, unit: str) -> str:
    return f"{value:.1f} {unit}"


HOW: dict[str, tuple[Callable[[Measurement], float | None], Callable[[float, str], str]]] = {
    "excess": (lambda one: one.excess("muster"), _difference),
    "ratio": (lambda one: one.ratio("muster"), _ratio),
    "value": (lambda one: one.median("muster"), _plain),
}
"""How a target's figure comes from a measurement, and how it is written."""


@dataclass(frozen=True)
class Target:
    """A limit for one figure of muster's."""

    key: str
    how: str
    limit: float


TABLE = (
    Target("job", "excess", 0.5),
    Target("first_line", "excess", 0.4),
    Target("checks", "excess", 1.0),
    Target("local", "excess", 0.5),
    Target("mpirun", "value", 3.0),
    Target("horovodrun", "excess", 1.0),
    Target("lines", "ratio", 1.1),
    Target("lines_after_error", "ratio", 1.1),
    Target("lines_pipe", "ratio", 1.1),
    Target("rank_raises", "value", 3.0),
    Target("host_killed", "value", 3.0),
    Target("code", "ratio", 1.25),
    Target("rollcall_small", "value", 2.0),
    Target("rollcall", "value", 10.0),
    Target("idle_memory", "value", 60.0),
    Target("idle_share", "value", 5.0),
    Target("harness", "value", 40.0),
    Target("rank", "value", 6.0),
    Target("harness_local", "value", 40.0),
    Target("rank_local", "value", 6.0),
)


@dataclass(frozen=True)
class Verdict:
    """One target beside what was measured."""

    title: str
    limit: str
    measured: str
    met: bool


def verdicts(results: Results) -> list[Verdict]:
    """Return a verdict for each target whose figure was measured."""
    found = []
    for target in TABLE:
        measurement = results.measurement(target.key)
        figure, write = HOW[target.how]
        value = figure(measurement) if measurement else None
        if measurement and value is not None:
            limit, measured = (write(n, measurement.unit) for n in (target.limit, value))
            # By what the page shows: it would not be believed that 0.50 is more than 0.50.
            met = round(value, 2) <= target.limit
            found.append(Verdict(measurement.title, limit, measured, met))
    return found
