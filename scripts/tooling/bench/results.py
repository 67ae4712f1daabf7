"""The figures: what was measured, their medians and ratios, and their form as JSON. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

BARE = "bare"
CONTENDERS = {
    "python": "plain Python",
    BARE: "bare torchrun",
    "muster": "muster",
    "peer": "AWS's toolkit",
}
"""Everyone who is measured, by the name in the JSON file, with the name in the tables."""


@dataclass(frozen=True)
class Measurement:
    """One quantity: for each contender one value a round, in the order of the rounds."""

    key: str
    title: str
    unit: str
    """s, or MB: 1,000,000 bytes."""
    samples: Mapping[str, tuple[float, ...]]

    def median(self, name: str) -> float | None:
        """Return the median of a contender's rounds; None where it wasn't measured."""
        values = self.samples.get(name)
        return statistics.median(values) if values else None

    def ratio(self, name: str) -> float | None:
        """Return the median of its value divided by bare torchrun's in the same round; None where one is missing."""
        pairs = self._pairs(name)
        return statistics.median(own / bare for own, bare in pairs) if pairs else None

    def excess(self, name: str) -> float | None:
        """Return the median of its value less bare torchrun's in the same round; None where one is missing."""
        pairs = self._pairs(name)
        return statistics.median(own - bare for own, bare in pairs) if pairs else None

    def _pairs(self, name: str) -> list[tuple[float, float]]:
        return list(zip(self.samples.get(name, ()), self.samples.get(BARE, ()), strict=False))


@dataclass(frozen=True)
class Machine:
    """The machine as the page names it: nothing that tells which one it is."""

    cores: int
    memory_gib: int
    gpus: int


@dataclass(frozen=True)
class Results:
    """All of one run."""

    date: str
    machine: Machine
    versions: Mapping[str, str]
    rounds: int
    measurements: tuple[Measurement, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    """What this machine can't do, and why: no failure."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """What should have run and did not, and why."""

    def measurement(self, key: str) -> Measurement | None:
        """Return the measurement of that key, if it was made."""
        return next((one for one in self.measurements if one.key == key), None)


def as_json(results: Results) -> dict[str, Any]:
    """Return what the JSON file holds: the samples, and what is derived from them."""
    data = asdict(results)
    data["measurements"] = [
        {
            **asdict(one),
            "medians": {name: one.median(name) for name in one.samples},
            "ratios_to_bare": {
                name: one.ratio(name)
                for name in one.samples
                if name != BARE and one.ratio(name) is not None
            },
        }
        for one in results.measurements
    ]
    return data
