"""What ranks need of the host beside GPUs and network: processors, memory, room, limits, names."""

from __future__ import annotations

from muster.check import capacity, hostnames, limits, processes, room

CHECKS = (
    *capacity.CHECKS,
    *limits.CHECKS,
    *room.CHECKS,
    *hostnames.CHECKS,
    *processes.CHECKS,
)
