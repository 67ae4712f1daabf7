"""What this host has: processors, GPUs, interfaces. Effects: looks at the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping

from muster.model import Machine


def look_at_machine(env: Mapping[str, str]) -> Machine:
    """The parts of this host that a plan needs. Never raises: what can't be seen isn't there."""
    return Machine(cpus=_usable_cpus(), gpus=_visible_gpus(env), interfaces=_interfaces())


def _usable_cpus() -> int:
    # The affinity mask, not the machine's count: a container may own a part of it.
    return len(os.sched_getaffinity(0))


def _visible_gpus(env: Mapping[str, str]) -> int:
    """GPUs that a framework in this container can use.

    CUDA_VISIBLE_DEVICES decides when it is set, as it does for CUDA: the list ends at
    the first entry that is no device. NVIDIA_VISIBLE_DEVICES is not read: it is `void`
    on SageMaker's CPU hosts and says nothing on others (contract.md 1.5).
    """
    present = _nvml_count()
    chosen = env.get("CUDA_VISIBLE_DEVICES")
    if present == 0 or chosen is None:
        return present
    count = 0
    for entry in chosen.split(","):
        name = entry.strip()
        known = name.isdigit() and int(name) < present
        if not known and not name.startswith(("GPU-", "MIG-")):
            break
        count += 1
    return count


def _nvml_count() -> int:
    # The driver's control device is missing on every CPU host: nothing is imported there.
    if not os.path.exists("/dev/nvidiactl"):
        return 0
    try:
        import pynvml  # noqa: PLC0415  (slow, and useless without a GPU)

        pynvml.nvmlInit()
        try:
            return int(pynvml.nvmlDeviceGetCount())
        finally:
            pynvml.nvmlShutdown()
    except Exception:  # noqa: BLE001  (a broken driver is the checks' finding, not a crash here)
        return 0


def _interfaces() -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir("/sys/class/net")))
    except OSError:
        return ()
