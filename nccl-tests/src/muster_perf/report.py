"""The lines around the table, and what the JSON file says beside it. Effects: asks torch for versions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from muster_perf import __version__, byhost
from muster_perf.baselines import expect
from muster_perf.errors import PerfError
from muster_perf.flags import Flags
from muster_perf.operations import Operation
from muster_perf.world import World, hosts

INSTANCE = "SM_CURRENT_INSTANCE_TYPE"
BASELINE = "MUSTER_BASELINE"
"""Names the JSON of a good run, which then says what is expected."""


def head(operation: Operation, flags: Flags, world: World, devices: Sequence[str]) -> list[str]:
    """The lines above the table: who measures, what, and on which devices."""
    import torch  # noqa: PLC0415

    factor = flags.stepfactor > 1
    step = f"{flags.stepfactor}(factor)" if factor else f"{flags.stepbytes}(bytes)"
    library = (
        f"torch={torch.__version__} backend={world.backend} nccl-library={nccl_version(world)}"
    )
    runs = f"warmup iters: {flags.warmup_iters} iters: {flags.iters} agg iters: {flags.agg_iters}"
    span = f"minBytes {flags.minbytes} maxBytes {flags.maxbytes} step: {step}"
    told = [
        f"# muster_perf version {__version__} {library}",
        f"# Collective test starting: {operation.command}",
        f"# nThread 1 nGpus 1 {span} {runs} validation: {flags.check} graph: 0 unalign: 0",
    ]
    if flags.blocking:
        barrier = "and barrier after" if flags.blocking == 1 else "after"
        end = " (no barrier)" if flags.blocking > 1 else ""
        told.append(f"# Blocking Enabled: wait for completion {barrier} each collective{end} ")
    return [*told, "#", "# Using devices", *devices]


def notes(operation: Operation, world: World, *, lists: bool) -> list[str]:
    """What a reader must know of the numbers below."""
    told = []
    if world.size == 1:
        told.append(
            "# note: one rank: nothing crosses a link, so busbw is 0.00; only algbw tells anything"
        )
    if operation.copies:
        told.append(
            f"# note: torch has {operation.name} in place only: out of place is a copy and then the call, "
            "timed together"
        )
    if lists:
        told.append(
            f"# note: backend {world.backend} gathers into a list of tensors only, which may copy"
        )
    return ["#", *told] if told else []


def outlook(
    operation: Operation, flags: Flags, names: Sequence[str], env: Mapping[str, str]
) -> list[str]:
    """What the largest size should reach, where the job says what its hosts are."""
    instance, recorded = env.get(INSTANCE, ""), env.get(BASELINE)
    if not recorded and not instance.startswith("ml."):
        return []
    number = len(hosts(names))
    try:
        known = expect(instance, number, operation.name, flags.maxbytes, recorded, ranks=len(names))
    except PerfError as error:
        return [f"# note: {error.what}"]
    on = f"{operation.name} of {flags.maxbytes} B on {number} x {instance or 'this machine'}"
    if known.expected is None:
        return [f"# note: no expectation for {on}: {known.reason}"]
    origin = f"{known.kind} ({known.source}, {known.date})"
    floor = f"below {known.floor:g} something is wrong"
    return [f"# note: expected for {on}: busbw {known.expected:g}, {origin}; {floor}"]


def facts(
    operation: Operation,
    flags: Flags,
    world: World,
    names: Sequence[str],
    env: Mapping[str, str],
    view: byhost.HostView | None,
) -> dict[str, Any]:
    """What the JSON file has beyond nccl-tests' schema."""
    import torch  # noqa: PLC0415

    number, instance = len(hosts(names)), env.get(INSTANCE, "")
    told = {
        "version": __version__,
        "collective": operation.name,
        "backend": world.backend,
        "torch": torch.__version__,
        "world": world.size,
        "hosts": number,
        "instance_type": instance,
    }
    try:
        known = dataclasses.asdict(
            expect(
                *(instance, number, operation.name, flags.maxbytes),
                env.get(BASELINE),
                ranks=world.size,
            )
        )
    except PerfError as error:
        known = {"expected": None, "kind": "unreadable", "reason": error.what}
    told["expected"] = {"size": flags.maxbytes, **known}
    return told if view is None else {**told, "by_host": byhost.document(view)}


def nccl_version(world: World) -> int:
    """NCCL's number as it writes it itself (2.27.7 is 22707); 0 where it isn't used."""
    if world.device.type != "cuda":
        return 0
    import torch  # noqa: PLC0415

    major, minor, patch = torch.cuda.nccl.version()[:3]  # type: ignore[no-untyped-call]
    return int(major * 10_000 + minor * 100 + patch)
