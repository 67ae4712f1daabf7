import os

import pytest

from muster.check.capacity import judge_memory, judge_processors, judge_shm
from muster.check.cgroup import Share
from muster.check.cgroup import look as look_at_share
from muster.contract.machine import MORE_SHARED_MEMORY

GIB, MIB = 2**30, 2**20
MEMINFO = "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:    8388608 kB\n"
MACHINE = {"total": 16 * GIB, "available": 8 * GIB}


@pytest.mark.parametrize(
    ("share", "nproc", "status", "evidence"),
    [
        (Share(8), 8, "PASS", "8 ranks on 8 processors"),
        (Share(8), 9, "WARN", "9 ranks on 8 processors"),
        (Share(64, 2.0), 2, "PASS", "2 ranks on 2 processors of 64: the cgroup has the time of 2"),
        (
            Share(64, 1.5),
            4,
            "WARN",
            "4 ranks on 2 processors of 64: the cgroup has the time of 1.5",
        ),
        (Share(2, 8.0), 4, "WARN", "4 ranks on 2 processors"),
    ],
    ids=["each-its-own", "one-too-many", "as-the-cgroup", "under-the-cgroup", "fewer-visible"],
)
def test_processors(share, nproc, status, evidence):
    """A rank needs one of its own, of those that the affinity mask and the cgroup leave."""
    found = judge_processors(share, nproc)
    assert (found.status, found.evidence) == (status, evidence)
    assert bool(found.remedy) == (status == "WARN")


@pytest.mark.parametrize(
    ("share", "nproc", "status", "evidence"),
    [
        (Share(1, **MACHINE), 16, "PASS", "8.0 GiB free of 16.0 GiB (the machine), 16 ranks"),
        (Share(1, **MACHINE), 17, "WARN", "8.0 GiB free of 16.0 GiB (the machine), 17 ranks"),
        (
            Share(1, limit=2 * GIB, used=GIB, **MACHINE),
            2,
            "PASS",
            "1.0 GiB free of 2.0 GiB (the cgroup), 2 ranks",
        ),
        (
            Share(1, limit=256 * MIB, used=56 * MIB, **MACHINE),
            1,
            "WARN",
            "200 MiB free of 256 MiB (the cgroup), 1 rank without data need about 512 MiB",
        ),
        (Share(1, limit=GIB), 1, "PASS", "1.0 GiB free of 1.0 GiB (the cgroup)"),
        (Share(1, limit=64 * GIB, **MACHINE), 1, "PASS", "8.0 GiB free of 16.0 GiB (the machine)"),
        (Share(1), 1, "UNKNOWN", "neither /proc/meminfo nor the cgroup tells of memory"),
    ],
    ids=["enough", "too-little", "cgroup", "small-cgroup", "cgroup-alone", "wide-cgroup", "untold"],
)
def test_memory(share, nproc, status, evidence):
    """The smaller of what the machine and the cgroup leave counts; nothing told is UNKNOWN."""
    found = judge_memory(share, nproc)
    assert found.status == status
    assert found.evidence.startswith(evidence)
    assert bool(found.remedy) == (status == "WARN")


@pytest.mark.parametrize(
    ("size", "free", "nproc", "status", "evidence"),
    [
        (2 * GIB, 2 * GIB, 2, "PASS", "/dev/shm has 2.0 GiB, 2 ranks may need 2.0 GiB"),
        (64 * MIB, 64 * MIB, 1, "WARN", "/dev/shm has 64 MiB, 1 rank may need 1.0 GiB"),
        (
            4 * GIB,
            GIB,
            2,
            "WARN",
            "/dev/shm has 4.0 GiB, 1.0 GiB of them free, 2 ranks may need 2.0 GiB",
        ),
        (0, 0, 1, "SKIP", "there is no /dev/shm, or its size isn't told"),
    ],
    ids=["enough", "dockers", "full", "none"],
)
def test_shared_memory(size, free, nproc, status, evidence):
    """1 GiB a rank; a large one that is full is told as such."""
    found = judge_shm(size, free, nproc)
    assert (found.status, found.evidence) == (status, evidence)


def test_what_gives_more_shared_memory():
    """The remedy has docker's option, and that of SageMaker's local modes."""
    assert MORE_SHARED_MEMORY in judge_shm(64 * MIB, 64 * MIB, 1).remedy
    assert "Remove what lies" in judge_shm(4 * GIB, 0, 1).remedy


V2 = {
    "sys/fs/cgroup/memory.max": "2147483648\n",
    "sys/fs/cgroup/memory.current": "1073741824\n",
    "sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 536870912\n",
    "sys/fs/cgroup/cpu.max": "150000 100000\n",
}
V1 = {
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "1073741824\n",
    "sys/fs/cgroup/memory/memory.stat": "cache 9\ntotal_inactive_file 536870912\n",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000\n",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
}
UNLIMITED = {
    "v1": {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"},
    "v2": {"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/cpu.max": "max 100000\n"},
}


@pytest.mark.parametrize("files", [V1, V2], ids=["v1", "v2"])
def test_both_versions_of_cgroups_are_read(put, roots, files):
    """The limits, and what is used without pages that the kernel would give back."""
    for name, text in (files | {"proc/meminfo": MEMINFO}).items():
        put(name, text)
    share = look_at_share(str(roots / "proc"), str(roots / "sys"))
    visible = len(os.sched_getaffinity(0))
    assert share == Share(visible, 1.5, 2 * GIB, GIB // 2, 16 * GIB, 8 * GIB)


@pytest.mark.parametrize("files", UNLIMITED.values(), ids=list(UNLIMITED))
def test_no_limit(put, roots, files):
    """Neither a very large number nor `max` is one, and a broken file says nothing."""
    for name, text in (files | {"proc/meminfo": "MemTotal: lots kB\n\n"}).items():
        put(name, text)
    share = look_at_share(str(roots / "proc"), str(roots / "sys"))
    assert share == Share(len(os.sched_getaffinity(0)))


def test_the_checks_look_at_the_host(look, put):
    """Each from the files of this host; a host that shows nothing is no PASS."""
    assert look("host.memory").status == "UNKNOWN"
    put("proc/meminfo", MEMINFO)
    assert look("host.memory", nproc=17).status == "WARN"
    put("sys/fs/cgroup/cpu.max", "100000 100000\n")
    assert look("host.cpus", nproc=2).status == "WARN"
    assert look("host.cpus", nproc=1).status == "PASS"
    assert look("host.shm").status == "SKIP"
