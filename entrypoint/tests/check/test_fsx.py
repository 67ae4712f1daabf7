import pytest

from muster.check import fsx

GB = 10**9


def offer(type_: str, rate: int, dataset: int, needed: float) -> fsx.Offer:
    (found,) = [
        one
        for one in fsx.offers(dataset, needed)
        if (one.deployment.type, one.deployment.rate) == (type_, rate)
    ]
    return found


def test_the_guides_example():
    """100 GB in 30 s needs about 3.3 GB/s: 14 times SCRATCH_2's 240 MB/s for 1.2 TiB, and more of the other."""
    needed = 100 * GB / 30
    scratch = offer("SCRATCH_2", 200, 100 * GB, needed)
    assert needed / GB == pytest.approx(3.33, abs=0.01)
    assert (scratch.capacity, scratch.rate) == (14 * 1200, pytest.approx(14 * 0.24 * GB))
    assert offer("PERSISTENT_2", 1000, 100 * GB, needed).capacity == 4800
    assert offer("PERSISTENT_1", 50, 100 * GB, needed).capacity == 67200


@pytest.mark.parametrize(
    ("at_least", "step", "capacity"),
    [
        (1, 2400, 1200),
        (1200, 2400, 1200),
        (1201, 2400, 2400),
        (2401, 2400, 4800),
        (4800, 2400, 4800),
        (2401, 3600, 3600),
        (3601, 3600, 7200),
    ],
)
def test_capacities_that_can_be_had(at_least, step, capacity):
    """1200 and 2400 GiB, then steps: 2400, for SCRATCH_1 3600."""
    assert fsx.Deployment("X", 200, step).capacity(at_least) == capacity


@pytest.mark.parametrize("needed", [1.0, GB, 17 * GB, 500 * GB])
@pytest.mark.parametrize("dataset", [1, 100 * GB, 50_000 * GB])
def test_each_offer_gives_what_is_needed_and_holds_the_data(needed, dataset):
    """None is too small, and none could be one step smaller."""
    for one in fsx.offers(dataset, needed):
        assert one.rate >= needed
        assert one.capacity * 2**30 >= dataset
        if one.capacity > 2400:
            less = one.capacity - one.deployment.step
            gives = less / 1000 * one.deployment.rate * 10**6
            assert gives < needed or less * 2**30 < dataset


def test_the_figures_have_their_source():
    """Each deployment type is in the table once, and the page that it comes from is named."""
    known = [(one.type, one.rate) for one in fsx.DEPLOYMENTS]
    assert len(set(known)) == len(known) == 9
    assert all(source.startswith("https://docs.aws.amazon.com/fsx/") for source in fsx.SOURCES)
