"""What needs no Horovod: who the ranks are, and errors. With one: tests/cluster/test_horovod.py."""

from itertools import groupby

import pytest

from muster_perf import hvd
from muster_perf.errors import PerfError

NAMES = ("RANK", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")


@pytest.mark.parametrize(
    ("sizes", "rank", "told"),
    [
        ((1,), 0, (0, 0, 1, 0, 1)),
        ((2, 2), 1, (1, 1, 2, 0, 2)),
        ((2, 2), 2, (2, 0, 2, 1, 2)),
        ((1, 3), 0, (0, 0, 1, 0, 2)),
        ((1, 3), 3, (3, 2, 3, 0, 1)),
        ((3, 1, 3), 5, (5, 1, 3, 1, 2)),
    ],
)
def test_who_a_rank_is(sizes, rank, told):
    """In Horovod's words: among all, on its host, and across the hosts that have a rank of its number."""
    found = hvd.places(sizes, rank)
    assert tuple(int(found[f"HOROVOD_{name}"]) for name in NAMES) == told
    assert found["HOROVOD_SIZE"] == str(sum(sizes))


def test_all_ranks_together():
    """Every place is taken once, and all who cross at a number agree on how many they are."""
    sizes = (2, 4, 1)
    every = [hvd.places(sizes, rank) for rank in range(sum(sizes))]
    by_local = sorted(every, key=lambda one: one["HOROVOD_LOCAL_RANK"])
    for _, ranks in groupby(by_local, key=lambda one: one["HOROVOD_LOCAL_RANK"]):
        across = list(ranks)
        assert sorted(int(one["HOROVOD_CROSS_RANK"]) for one in across) == list(range(len(across)))
        assert {one["HOROVOD_CROSS_SIZE"] for one in across} == {str(len(across))}


def test_a_rank_that_is_not_among_them():
    """Is refused with both numbers."""
    with pytest.raises(PerfError, match="rank 4 is not among the 4 of --sizes"):
        hvd.places((2, 2), 4)


def test_without_horovod(monkeypatch, capsys):
    """Status 2, and what the import said."""
    for name in [name for name in hvd.os.environ if name.startswith(("HOROVOD_", "OMPI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(hvd.os, "environ", dict(hvd.os.environ))
    assert hvd.main(["--sizes", "1", "-b", "64"]) == 2
    assert "hvd: Horovod can't be imported: No module named 'horovod'" in capsys.readouterr().err
