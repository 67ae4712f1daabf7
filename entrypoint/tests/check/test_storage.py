import errno
import os
import threading

import pytest

from muster.check import storage
from muster.check.registry import CHECKS, chosen
from muster.check.sampling import LIGHT, Limits, Sample
from muster.check.storage import Read, judge
from muster.model import Channel

GB, MB = 10**9, 10**6


def sample(total: int, read: int = 243 * MB, seconds: float = 1.0, **changes) -> Sample:
    values = {"files": 9, "total": total, "whole": True, "read": read, "seconds": seconds}
    return Sample(**(values | {"parts": 10} | changes))


@pytest.mark.parametrize(
    ("read", "status", "evidence"),
    [
        (
            Read("train", "FSx for Lustre", sample(102 * GB)),
            "PASS",
            "train (FSx for Lustre): 243 MB/s, one pass over 102 GB takes 7 min",
        ),
        (
            Read("train", "EFS", sample(9000 * GB, whole=False)),
            "WARN",
            "train (EFS): 243 MB/s, one pass over at least 9.0 TB takes 10.3 h",
        ),
        (
            Read("train", "EFS", error="Stale file handle", broken=True),
            "FAIL",
            "train (EFS): Stale file handle",
        ),
        (
            Read("train", "EFS", error="it has not answered within 13 s"),
            "UNKNOWN",
            "train (EFS): it has not answered within 13 s",
        ),
        (
            Read("train", "disk (ext4)", sample(GB, cached=6)),
            "UNKNOWN",
            "train (disk (ext4)): 1.0 GB, of which this host has read from its memory alone",
        ),
        (
            Read("train", "memory", sample(GB, cached=10)),
            "PASS",
            "train (memory): 243 MB/s, one pass over 1.0 GB takes 4.1 s",
        ),
        (
            Read("train", "disk (ext4)", sample(5000, read=5000)),
            "SKIP",
            "the channels are too small to measure",
        ),
    ],
    ids=["guide", "slow", "broken", "hangs", "cached", "tmpfs", "small"],
)
def test_what_a_rate_means(read, status, evidence):
    """A rate is told as the time of one pass; what came from memory says nothing of the storage."""
    found = judge([read])
    assert (found.status, found.evidence) == (status, evidence)
    assert bool(found.remedy) == (status in ("WARN", "FAIL"))


def test_several_channels():
    """Each good one is told; one that is too small is not; the worst counts."""
    good, small = Read("train", "EFS", sample(GB)), Read("code", "EFS", sample(5, read=5))
    assert judge([good, small, good]).evidence.count("one pass") == 2
    late = Read("test", "EFS", error="no time was left for it")
    assert (judge([good, late]).status, judge([good, late]).evidence) == (
        "UNKNOWN",
        "test (EFS): no time was left for it",
    )


def test_it_is_no_part_of_the_fast_level():
    """It reads: only who asks for it waits for it."""
    assert "storage.channels" in [check.name for check in chosen("full", {})]
    assert "storage.channels" not in [check.name for check in chosen("fast", {})]


def test_its_own_time_is_in_the_checks():
    """The last channel that is begun still has its time before the check's is over."""
    (check,) = [one for one in CHECKS if one.name == "storage.channels"]
    longest = storage.FULL.list_seconds + storage.FULL.seconds + storage._GRACE_S
    assert storage.ALL_S + longest <= check.timeout_s


@pytest.fixture
def channel(tmp_path):
    """A function that makes a channel with a file of so many bytes."""

    def make(name: str, size: int, mode: str = "File") -> Channel:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "part-0").write_bytes(os.urandom(size))
        return Channel(name, str(folder), mode)

    return make


def test_a_real_channel_is_read(look, make_job, put, channel, monkeypatch):
    """The line has its name, its kind by /proc/mounts, and a rate."""
    monkeypatch.setattr(os, "RWF_NOWAIT", 1 << 30)  # A flag that no file system knows.
    put("proc/mounts", "/dev/vda / ext4 rw 0 0\n")
    job = make_job(channels=(channel("train", 8 * MB),))
    found = look("storage.channels", job)
    assert found.status == "PASS"
    assert found.evidence.startswith("train (disk (ext4)): ")
    assert "one pass over 8 MB takes" in found.evidence
    assert "/s, " in found.evidence


def test_pipes_are_never_looked_at(look, make_job, channel, monkeypatch):
    """Neither opened nor listed, whatever lies at their place."""
    monkeypatch.setattr(storage, "take", None)
    pipe = channel("train", MB, "Pipe")
    assert look("storage.channels", make_job(channels=(pipe,))).evidence == "no channel with files"
    assert look("storage.channels", make_job()).evidence == "the job has no channel"


@pytest.mark.parametrize(("mode", "kind"), [("FastFile", "ext4"), ("File", "fuse")])
def test_little_is_asked_of_what_fetches(look, make_job, put, channel, monkeypatch, mode, kind):
    """Where each read is a request to S3, the sample is small."""
    taken = []

    def note(_: str, limits: Limits) -> Sample:
        taken.append(limits)
        return sample(GB)

    monkeypatch.setattr(storage, "take", note)
    put("proc/mounts", f"x / {kind} rw 0 0\n")
    assert look("storage.channels", make_job(channels=(channel("t", 1, mode),))).status == "PASS"
    assert taken == [LIGHT]


@pytest.mark.parametrize(
    ("number", "status"), [(errno.EIO, "FAIL"), (errno.ESTALE, "FAIL"), (errno.EACCES, "UNKNOWN")]
)
def test_errors(look, make_job, channel, monkeypatch, number, status):
    """The storage's own ends the job; what this user may not read could not be looked at."""

    def fail(*_) -> Sample:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(storage, "take", fail)
    found = look("storage.channels", make_job(channels=(channel("t", 1),)))
    assert (found.status, found.evidence) == (status, f"t (unknown): {os.strerror(number)}")


def test_a_hung_channel_costs_its_time(look, make_job, channel, monkeypatch):
    """It is UNKNOWN, and the next one is read."""
    stop = threading.Event()

    def read(path: str, _: Limits) -> Sample:
        if path.endswith("dead"):
            stop.wait(30)
        return sample(GB)

    monkeypatch.setattr(storage, "take", read)
    monkeypatch.setattr(storage, "FULL", Limits(0.1, 1, 0.1))
    monkeypatch.setattr(storage, "_GRACE_S", 0.1)
    channels = (channel("dead", 1), channel("well", 1))
    found = look("storage.channels", make_job(channels=channels))
    stop.set()
    assert found.status == "UNKNOWN"
    assert found.evidence.startswith("dead (unknown): it has not answered within 0.3")


def test_no_time_for_the_last(look, make_job, channel, monkeypatch):
    """Many channels do not hold a job for ever, and none is passed unread."""
    monkeypatch.setattr(storage, "ALL_S", -1.0)
    found = look("storage.channels", make_job(channels=(channel("t", 1),)))
    assert (found.status, found.evidence) == ("UNKNOWN", "t (unknown): no time was left for it")
