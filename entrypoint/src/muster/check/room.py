"""What the room in a job's folders means. Effects: those of folders.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from muster.check.figures import memory
from muster.check.finding import Check, Finding, Here, combined, passed, skipped, unknown
from muster.check.folders import Room, Tried, rooms, tries

_GIB = 2**30
LEAST, PLENTY = _GIB, 20 * _GIB
FEW_BYTES, FEW_INODES = 0.10, 0.05


def _disk(here: Here) -> Finding:
    return judge_disk(rooms(here))


def _inodes(here: Here) -> Finding:
    return judge_inodes(rooms(here))


def _writable(here: Here) -> Finding:
    return judge_writable(tries(here), needed=here.job.paths.model, uid=os.getuid())


def judge_disk(found: Iterable[Room]) -> Finding:
    """Whether there is room; a folder without any is a FAIL."""
    more = "Give the job a larger volume (volume_size), or remove what isn't needed."

    def judge(room: Room, where: str) -> Finding | None:
        if not room.size:
            return None
        share = room.free / room.size
        evidence = f"{where}: {memory(room.free)} free of {memory(room.size)} ({share:.0%})"
        if not room.free:
            return Finding("FAIL", evidence, more)
        little = room.free < LEAST or (share < FEW_BYTES and room.free < PLENTY)
        return Finding("WARN", evidence, more) if little else passed(evidence)

    return _judged(found, judge, "these file systems don't tell their size")


def judge_inodes(found: Iterable[Room]) -> Finding:
    """Whether files can be made, however small they are."""
    remedy = "Remove small files, or keep them in archives."

    def judge(room: Room, where: str) -> Finding | None:
        if not room.inodes:
            return None
        share = room.inodes_free / room.inodes
        evidence = f"{where}: {room.inodes_free} inodes free of {room.inodes} ({share:.0%})"
        if not room.inodes_free:
            return Finding("FAIL", evidence, remedy)
        return Finding("WARN", evidence, remedy) if share < FEW_INODES else passed(evidence)

    return _judged(found, judge, "these file systems don't count inodes")


def judge_writable(found: Iterable[Tried], needed: str, uid: int) -> Finding:
    """Whether a file could be made in each folder.

    Args:
        found: what came of it.
        needed: the folder without which the job is for nothing: a FAIL where it is there.
        uid: this user's number.
    """
    parts = []
    for tried in found:
        remedy = f"Mount {tried.path} writable; this container's user is {uid}."
        if tried.unseen:
            parts.append(unknown(f"{tried.path}: {tried.unseen}"))
        elif tried.error:
            lost = tried.path == needed and tried.there
            evidence = f"{tried.path} can't be written: {tried.error}"
            parts.append(Finding("FAIL" if lost else "WARN", evidence, remedy))
        else:
            parts.append(passed(tried.path if tried.there else f"{tried.path} can be made"))
    return combined(parts)


def _judged(
    found: Iterable[Room], judge: Callable[[Room, str], Finding | None], untold: str
) -> Finding:
    """One finding of all; folders of one file system share a part of the line."""
    parts, alike = [], dict[tuple[int, int, int, int], list[Room]]()
    for room in found:
        if room.unseen:
            parts.append(unknown(f"{room.path}: {room.unseen}"))
        else:
            key = room.size, room.free, room.inodes, room.inodes_free
            alike.setdefault(key, []).append(room)
    for same in alike.values():
        part = judge(same[0], ", ".join(room.path for room in same))
        parts += [part] if part else []
    return combined(parts) if parts else skipped(untold)


CHECKS = (
    Check(
        "host.disk",
        "fast",
        "Free room for checkpoints, the model, output and temporary files",
        _disk,
        limits="FAIL without a free byte; WARN below 1 GiB, or below 20 GiB and 10 %",
        source="imbue-ai/cluster-health has 95 % used as an error; stas00/ml-engineering",
        remedy="a larger volume (`volume_size`); a larger /tmp",
    ),
    Check(
        "host.inodes",
        "fast",
        "Free inodes of the same folders",
        _inodes,
        limits="FAIL without a free one; WARN below 5 %",
        source="stas00/ml-engineering: a disk may be full with bytes free",
        remedy="fewer, larger files",
    ),
    Check(
        "host.writable",
        "fast",
        "Makes a small file in the folders for model, output and temporary files; "
        "that for checkpoints has been tried before (docs/checkpoints.md)",
        _writable,
        limits="FAIL where the model folder is there and can't be written; WARN for the others",
        source="the model is what the job is for; nvidia-resiliency-ext looks at its paths with a time-out, too",
        remedy="mount it writable, or run as a user who may write there",
    ),
)
