"""What ranks need of the host beside GPUs and network: shared memory, room, limits. Effects: looks at files."""

from __future__ import annotations

from muster.check.finding import Check, Finding, Here, passed, skipped
from muster.contract.machine import MORE_SHARED_MEMORY

_GIB = 2**30
_SHM_A_RANK = _GIB


def _shared_memory(here: Here) -> Finding:
    """Data loaders hand batches over in /dev/shm, and NCCL its buffers."""
    size = here.job.machine.shm
    if not size:
        return skipped("there is no /dev/shm, or its size isn't told")
    need = here.nproc * _SHM_A_RANK
    evidence = f"/dev/shm has {_size(size)}, {here.nproc} ranks may need {_size(need)}"
    return (
        passed(evidence)
        if size >= need
        else Finding("WARN", evidence, f"Give it more: {MORE_SHARED_MEMORY}.")
    )


def _size(count: float) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count / 2**20:.0f} MiB"


CHECKS = (
    Check(
        "host.shm",
        "fast",
        "The size of /dev/shm against 1 GiB a rank",
        _shared_memory,
        limits="WARN below 1 GiB a rank",
        source="Docker's own 64 MiB is filled by one data-loader worker's batch",
    ),
)
