"""How much memory a rank may use for its buffers. Effects: reads /proc, cgroups, the GPU."""

from __future__ import annotations

from muster_perf.world import World

_GIB = 2**30
_ROOM = 0.8
"""Of a host's memory: the backend's own buffers and everything else take the rest."""
_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def available(world: World, local_ranks: int) -> int:
    """Bytes for this rank's buffers: its GPU's, or its share of what the host has left."""
    if world.device.type == "cuda":
        import torch  # noqa: PLC0415

        free, total = torch.cuda.mem_get_info(world.device)
        # As nccl-tests: 1 GiB in reserve for each 16, 4 at the most, and one for NCCL.
        reserve = min(-(-total // (16 * _GIB)), 4) * _GIB + _GIB
        return max(0, min(free, total - reserve))
    free = min([_of_the_host(), *_of_the_container()])
    return int(free * _ROOM) // max(1, local_ranks)


def _of_the_host() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 2**62


def _of_the_container() -> list[int]:
    found = []
    for limit, used in _LIMITS:
        try:
            with open(limit, encoding="ascii") as file, open(used, encoding="ascii") as now:
                found.append(max(0, int(file.read()) - int(now.read())))
        except (OSError, ValueError):  # not there, or `max`
            continue
    return found
