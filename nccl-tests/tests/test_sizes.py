import pytest

from muster_perf.flags import Flags
from muster_perf.operations import OPERATIONS, busbw_factor
from muster_perf.sizes import Counts, counts, sweep, warm_up

DIVIDED = ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter")
WHOLE = ("all_reduce", "broadcast", "reduce", "sendrecv")


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
def test_bus_bandwidth_factors(ranks):
    """2(n-1)/n, (n-1)/n and 1, as NVIDIA's PERFORMANCE.md has them; with one rank 0 for all."""
    found = {name: busbw_factor(operation, ranks) for name, operation in OPERATIONS.items()}
    alone = 0.0 if ranks == 1 else 1.0
    assert found == {
        "all_reduce": pytest.approx(2 * (ranks - 1) / ranks),
        **dict.fromkeys(DIVIDED, pytest.approx((ranks - 1) / ranks)),
        **dict.fromkeys(("broadcast", "reduce", "sendrecv"), alone),
    }


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", DIVIDED)
def test_parts_are_aligned_to_16_bytes(name, ranks, width):
    """A rank's part is the largest multiple of 16 bytes that n times fits: sizes shrink, down to 0."""
    for size in (0, 8, 15, 16, 31, 100, 1000, 4096, 10**6 + 7):
        found = counts(OPERATIONS[name], size, width, ranks)
        part = size // width // ranks * width // 16 * 16
        assert found.count * width == part
        assert found.bytes(width) == part * ranks <= size
        assert size - found.bytes(width) < (16 + width) * ranks


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("name", WHOLE)
def test_whole_sizes_are_not_cut(name, width):
    """Where the size is that of each rank, it is what was asked for, in whole elements."""
    for size in (0, 8, 100, 1003):
        elements = size // width
        assert counts(OPERATIONS[name], size, width, 3) == Counts(elements, elements, elements)


@pytest.mark.parametrize(
    ("name", "send", "receive"),
    [
        ("all_gather", 8, 24),
        ("reduce_scatter", 24, 8),
        ("alltoall", 24, 24),
        ("gather", 8, 24),
        ("scatter", 24, 8),
    ],
)
def test_who_sends_and_receives_how_much(name, send, receive):
    """100 bytes of floats on 3 ranks are 8 elements a part; `count` is the part, `size` all of them."""
    found = counts(OPERATIONS[name], 100, 4, 3)
    assert (found, found.bytes(4)) == (Counts(8, send, receive), 96)


def test_sweeps():
    """By a factor, or by steps; the warm-up doubles whatever the steps are."""
    by_two = Flags(minbytes=8, maxbytes=64, stepfactor=2)
    assert list(sweep(by_two)) == [8, 16, 32, 64]
    steps = Flags(minbytes=0, maxbytes=100, stepbytes=40)
    assert list(sweep(steps)) == [0, 40, 80]
    assert list(warm_up(steps)) == [1, 2, 4, 8, 16, 32, 64]
    assert list(sweep(Flags())) == [32 * 2**20]
