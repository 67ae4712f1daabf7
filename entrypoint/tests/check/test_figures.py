import re

import pytest

from muster.check import figures


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (64 * 2**20, "64 MiB"),
        (1023, "1023 B"),
        (1.25 * 2**30, "1.2 GiB"),
        (252 * 2**30, "252 GiB"),
        (5 * 2**50, "5120 TiB"),
    ],
)
def test_memory(count, text):
    """Powers of 1024, with the digits that a person compares."""
    assert figures.memory(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(102e9, "102 GB"), (243e6, "243 MB"), (3.33e9, "3.3 GB"), (2e15, "2.0 PB")]
)
def test_data(count, text):
    """Powers of 1000."""
    assert figures.data(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.44, "0.4 s"), (30, "30 s"), (119, "119 s"), (420, "7 min"), (9000, "2.5 h")],
)
def test_times(seconds, text):
    """In the unit in which people think of them."""
    assert figures.time(seconds) == text


@pytest.mark.parametrize(
    ("number", "thing", "text"),
    [(1, "rank", "1 rank"), (0, "rank", "0 ranks"), (2, "process", "2 processes")],
)
def test_counts(number, thing, text):
    """One thing, several things."""
    assert figures.counted(number, thing) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [("100GB", 10**11), ("1.5 TB", 15 * 10**11), ("800GiB", 800 * 2**30), ("5b", 5), ("2kb", 2000)],
)
def test_sizes_are_read(text, count):
    """As storage is sold, and with an i as memory is."""
    assert figures.read_size(text) == count


@pytest.mark.parametrize("text", ["", "100", "GB", "-1GB", "1 XB", "1e3GB", "iB"])
def test_what_is_no_size(text):
    """A number without a unit is none: nobody guesses it."""
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        figures.read_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("30", 30), ("5min", 300), ("5 m", 300), ("1.5h", 5400)]
)
def test_times_are_read(text, seconds):
    """Seconds, unless it says another unit."""
    assert figures.read_time(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "s", "-3s", "1d"])
def test_what_is_no_time(text):
    """No time at all is none."""
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        figures.read_time(text)
