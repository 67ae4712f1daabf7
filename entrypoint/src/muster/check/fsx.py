"""What Amazon FSx for Lustre gives, by deployment type and capacity. Pure.

Throughput grows with capacity: so many MB/s for each TiB. AWS counts 1200 GiB as 1.2 TiB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SOURCES = (
    "https://docs.aws.amazon.com/fsx/latest/LustreGuide/ssd-storage.html",
    "https://docs.aws.amazon.com/fsx/latest/LustreGuide/managing-throughput-capacity.html",
    "https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html",
)
READ_ON = "2026-12-01"
_GIB = 2**30
_MB = 10**6
_GIB_A_TIB = 1000
"""As AWS names capacities: 1.2 TiB is 1200 GiB."""


@dataclass(frozen=True)
class Deployment:
    """One kind of file system, on SSD."""

    type: str
    rate: int
    """MB/s for each TiB, from disk and without burst."""
    step: int = 2400
    """GiB from one capacity to the next, above the first two."""

    def capacity(self, at_least: float) -> int:
        """The smallest capacity in GiB that can be had and is not below `at_least`."""
        for small in (1200, 2400):
            if at_least <= small:
                return small
        return math.ceil(at_least / self.step) * self.step


DEPLOYMENTS = (
    Deployment("SCRATCH_1", 200, step=3600),
    Deployment("SCRATCH_2", 200),
    *(Deployment("PERSISTENT_1", rate) for rate in (50, 100, 200)),
    *(Deployment("PERSISTENT_2", rate) for rate in (125, 250, 500, 1000)),
)


@dataclass(frozen=True)
class Offer:
    """A file system that gives what is needed."""

    deployment: Deployment
    capacity: int
    """GiB."""
    rate: float
    """Bytes a second."""


def offers(dataset: int, rate: float) -> tuple[Offer, ...]:
    """The smallest file system of each deployment type that holds a data set and gives a rate.

    Args:
        dataset: its size in bytes.
        rate: bytes a second, over all hosts.
    """
    found = []
    for one in DEPLOYMENTS:
        needed = max(rate / _MB / one.rate * _GIB_A_TIB, dataset / _GIB)
        capacity = one.capacity(needed)
        found.append(Offer(one, capacity, capacity / _GIB_A_TIB * one.rate * _MB))
    return tuple(found)
