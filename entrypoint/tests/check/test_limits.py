import resource

import pytest

from muster.check.limits import Limits, judge_limits

GIB = 2**30
ANY = -1


@pytest.mark.parametrize(
    ("limits", "world", "infiniband", "status", "evidence"),
    [
        (Limits(1024, 65536), 256, False, "PASS", "1024 open files for a job of 256 ranks"),
        (Limits(1024, 65536), 257, False, "WARN", "1024 open files for a job of 257 ranks"),
        (Limits(ANY, 0), 4096, False, "PASS", "any number of open files for a job of 4096 ranks"),
        (
            Limits(65536, 65536),
            8,
            True,
            "WARN",
            "65536 open files for a job of 8 ranks, 64 KiB of locked memory for InfiniBand",
        ),
        (
            Limits(65536, ANY),
            8,
            True,
            "PASS",
            "65536 open files for a job of 8 ranks, any of locked memory for InfiniBand",
        ),
        (
            Limits(65536, 16 * GIB),
            8,
            True,
            "PASS",
            "65536 open files for a job of 8 ranks, 16.0 GiB of locked memory for InfiniBand",
        ),
    ],
    ids=["enough", "too-few", "no-limit", "little-locked", "any-locked", "just-enough-locked"],
)
def test_limits(limits, world, infiniband, status, evidence):
    """Files for a socket to each rank; locked memory counts only where something locks it."""
    found = judge_limits(limits, world, infiniband=infiniband)
    assert (found.status, found.evidence) == (status, evidence)


def test_the_remedy_names_what_is_short():
    """Each option that is needed, and no other; a large job's own number of files."""
    both = judge_limits(Limits(256, 0), 100_000, infiniband=True).remedy
    assert "--ulimit nofile=200512 --ulimit memlock=-1" in both
    assert "memlock" not in judge_limits(Limits(256, 0), 1, infiniband=False).remedy


def test_it_asks_the_kernel(look, roots, monkeypatch):
    """The soft limits of this process count, and memory where there is a device that wants it."""
    limits = {resource.RLIMIT_NOFILE: (100, 1000), resource.RLIMIT_MEMLOCK: (0, 0)}
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    found = look("host.limits")
    assert (found.status, found.evidence) == ("WARN", "100 open files for a job of 1 rank")
    (roots / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    assert "0 B of locked memory for InfiniBand" in look("host.limits").evidence


@pytest.mark.parametrize(
    ("efa", "tells"), [(True, ["efa.memory"]), (False, ["host.limits"])], ids=["efa", "infiniband"]
)
def test_little_locked_memory_is_told_once(look, roots, put, monkeypatch, efa, tells):
    """By efa.memory where there is EFA, also beside other devices; else by host.limits."""
    limits = {resource.RLIMIT_NOFILE: (ANY, ANY), resource.RLIMIT_MEMLOCK: (65536, 65536)}
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    (roots / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    if efa:
        put("sys/class/infiniband/rdmap0s6/device/vendor", "0x1d0f\n")
        put("sys/class/infiniband/rdmap0s6/device/device", "0xefa1\n")
    found = {name: look(name) for name in ("host.limits", "efa.memory")}
    assert [name for name, told in found.items() if told.status == "WARN"] == tells
    assert ("locked" in found["host.limits"].evidence) != efa
