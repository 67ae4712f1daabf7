from itertools import combinations

import pytest

from muster_perf.byhost import HostView, document, lines, schedule


@pytest.mark.parametrize("hosts", [1, 2, 3, 4, 7, 16])
def test_every_pair_once_in_as_few_steps_as_possible(hosts):
    """All pairs meet, no host is in two pairs of a step, and no step is wasted."""
    steps = schedule(hosts)
    assert sorted(pair for step in steps for pair in step) == list(combinations(range(hosts), 2))
    for step in steps:
        busy = [host for pair in step for host in pair]
        assert len(busy) == len(set(busy))
    assert len(steps) == (hosts - 1 + hosts % 2 if hosts > 1 else len(steps))


def test_the_slow_host_is_seen():
    """Every pair of the bad host is slow; the healthy pairs are not marked, and all lines are comments."""
    rates = {(0, 1): 40.0, (0, 2): 10.0, (0, 3): 41.0, (1, 2): 11.0, (1, 3): 42.0, (2, 3): 9.0}
    rates |= {(0, 4): 40.0, (1, 4): 40.0, (2, 4): 12.0, (3, 4): 43.0}
    view = HostView(tuple(f"algo-{i + 1}" for i in range(5)), 2**20, rates)
    assert view.of(2) == [9.0, 10.0, 11.0, 12.0]
    told = lines(view)
    assert all(line.startswith("#") for line in told)
    slow = [line for line in told if line.endswith("slow")]
    assert len(slow) == 4
    assert all("algo-3" in line for line in slow)
    assert document(view)["pairs"][0] == {"hosts": ["algo-3", "algo-4"], "send_gb_s": 9.0}


def test_two_hosts_and_one():
    """A pair alone can't tell which host is slow, and one host has no pair: both are said."""
    two = lines(HostView(("a", "b"), 8, {(0, 1): 1.0}))
    assert two[-1] == "# With two hosts the pair can't tell which of them is slow"
    (_, one) = lines(HostView(("a",), 8, {}))
    assert "no pair to compare" in one
