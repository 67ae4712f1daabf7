"""How fast each channel can be read, and what that means for an epoch. Effects: reads files, by sampling.py."""

from __future__ import annotations

import errno
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from muster.check import figures
from muster.check.bounded import all_within
from muster.check.finding import Check, Finding, Here, combined, passed, skipped, unknown
from muster.check.mounts import Mount, mount_of, read_mounts
from muster.check.sampling import BLOCK, FULL, LIGHT, Limits, Sample, take
from muster.model import Channel

ENOUGH = BLOCK
"""Bytes: less says nothing of a rate."""
LONG_PASS_S = 3600.0
ALL_S = 60.0
"""No channel is begun later than this."""
_GRACE_S = 5.0
_BROKEN = (errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.EHOSTDOWN, errno.ETIMEDOUT)


@dataclass(frozen=True)
class Read:
    """What came of one channel."""

    name: str
    kind: str
    sample: Sample | None = None
    error: str = ""
    broken: bool = False
    """Whether the error is the storage's own."""


def _channels(here: Here) -> Finding:
    # A FIFO in Pipe mode gives its data once: it is neither opened nor looked at.
    readable = [one for one in here.job.channels if one.input_mode != "Pipe"]
    if not readable:
        return skipped("no channel with files" if here.job.channels else "the job has no channel")
    mounts = _mounts(here.proc)
    deadline = time.monotonic() + ALL_S
    return judge([_read(channel, mounts, deadline) for channel in readable])


def _mounts(proc: str) -> tuple[Mount, ...]:
    try:
        return read_mounts(proc)
    except OSError:
        return ()


def _read(channel: Channel, mounts: tuple[Mount, ...], deadline: float) -> Read:
    """One channel's sample: one after the other, as two at once would share what the host has."""
    mount = mount_of(channel.path, mounts)
    kind = mount.kind if mount else "unknown"
    if time.monotonic() > deadline:
        return Read(channel.name, kind, error="no time was left for it")
    light = channel.input_mode == "FastFile" or (mount is not None and mount.fetches)
    limits: Limits = LIGHT if light else FULL
    most = limits.list_seconds + limits.seconds + _GRACE_S
    answer = all_within(most, {"": partial(take, channel.path, limits)})[""]
    if isinstance(answer, Sample):
        return Read(channel.name, kind, answer)
    if isinstance(answer, OSError):
        broken = answer.errno in _BROKEN
        return Read(channel.name, kind, error=answer.strerror or str(answer), broken=broken)
    return Read(channel.name, kind, error=str(answer))


def judge(found: Sequence[Read]) -> Finding:
    """What the channels give; SKIP where all are too small to say."""
    parts = [part for part in map(_judged, found) if part]
    return combined(parts) if parts else skipped("the channels are too small to measure")


def _judged(one: Read) -> Finding | None:
    where = f"{one.name} ({one.kind})"
    if one.broken:
        remedy = (
            "The storage itself gives an error: look at the file system, or its security group."
        )
        return Finding("FAIL", f"{where}: {one.error}", remedy)
    sample = one.sample
    if sample is None:
        return unknown(f"{where}: {one.error}")
    if sample.read < ENOUGH:
        return None
    rate = sample.read / sample.seconds
    size = f"{'' if sample.whole else 'at least '}{figures.data(sample.total)}"
    if sample.cached * 2 > sample.parts and one.kind != "memory":
        return unknown(f"{where}: {size}, of which this host has read from its memory alone")
    taken = sample.total / rate
    evidence = f"{where}: {figures.data(rate)}/s, one pass over {size} takes {figures.time(taken)}"
    if taken <= LONG_PASS_S:
        return passed(evidence)
    remedy = "`muster storage-plan` says what a file system must give for the epoch that you want."
    return Finding("WARN", evidence, remedy)


CHECKS = (
    Check(
        "storage.channels",
        "full",
        "Reads a part of each channel's files, at most 5 s and 512 MiB (2 s and 32 MiB where reads "
        "are requests to S3), by 4 readers, after the kernel was asked to forget what it has of them",
        _channels,
        limits="FAIL on an error of the storage's own; WARN where one pass takes more than an hour; "
        "UNKNOWN where more than half came from memory all the same",
        source="the limit is a choice; the rate is this host's alone, and others read at the same time",
        remedy="`muster storage-plan`; a larger FSx for Lustre, or File mode with a volume that holds it",
        timeout_s=90.0,
    ),
)
