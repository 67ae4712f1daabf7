"""What a GPU is doing before the job begins: hot, slowed, in use by others. Pure but for `memory`, which waits and looks again."""

from __future__ import annotations

import time
from collections.abc import Callable

from muster.check.finding import Finding, passed
from muster.check.gpu.asking import Look
from muster.check.gpu.facts import Gpu, Missing
from muster.check.gpu.judging import failed, lacking, over, warned
from muster.check.gpu.limits import MARGIN, USED
from muster.check.gpu.remedies import HOT, IN_USE, SLOW

SLOWED = {
    0x08: "hardware slowdown",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}
"""Reasons that mean trouble (nvmlClocksEventReasons); idling and power caps don't."""
_MIB = 2**20


def clocks(gpu: Gpu) -> Finding:
    """Whether something slows it though it does nothing."""
    mask = gpu.clocks
    if isinstance(mask, Missing):
        return lacking(mask, "reasons for low clocks")
    reasons = [text for bit, text in SLOWED.items() if mask & bit]
    if not reasons:
        return passed(f"nothing slows it (mask {mask:#x})")
    evidence = f"slowed at rest by {', '.join(reasons)} (mask {mask:#x})"
    return warned(evidence, SLOW)


def temperature(gpu: Gpu) -> Finding:
    """How far it is from the heat at which it slows down."""
    now, slowdown = gpu.temperature, gpu.slowdown
    if isinstance(now, Missing):
        return lacking(now, "temperature")
    if isinstance(slowdown, Missing):
        return lacking(slowdown, "slowdown temperature")
    evidence = f"{now} C, slows down at {slowdown} C"
    if now < slowdown - MARGIN:
        return passed(evidence)
    return warned(evidence, HOT)


def persistence(gpu: Gpu) -> Finding:
    """For the record: without it the driver begins anew for every first program."""
    mode = gpu.persistence
    if isinstance(mode, Missing):
        return lacking(mode, "persistence mode")
    return passed(f"persistence mode is {'on' if mode else 'off'}")


def memory(gpu: Gpu) -> Finding:
    """Whether somebody else holds its memory."""
    held, users = gpu.memory, gpu.processes
    if isinstance(held, Missing):
        return lacking(held, "memory in use")
    used, total = held
    evidence = f"{used // _MIB} of {total // _MIB} MiB are in use"
    if not isinstance(users, Missing) and users:
        named = ", ".join(f"process {pid} ({size // _MIB} MiB)" for pid, size in users)
        return failed(f"{evidence}: {named}", IN_USE)
    if used < USED:
        return passed(evidence)
    return warned(f"{evidence}, by nobody that this container sees", IN_USE)


def memory_in_time(look: Look, wait_s: float, pause_s: float, again: Callable[[], Look]) -> Finding:
    """The same for all, once an earlier job's processes have had time to end.

    Args:
        look: the look that all checks share.
        wait_s: how long to wait for free memory.
        pause_s: between two looks.
        again: takes another look.

    Effects: waits, takes looks.
    """
    deadline = time.monotonic() + wait_s
    found = over(look, memory)
    while found.status == "FAIL" and time.monotonic() + pause_s < deadline:
        time.sleep(pause_s)
        found = over(again(), memory)
    return found
