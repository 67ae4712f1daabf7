import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.launch.progress import INTERVAL_S, Thinner


@pytest.mark.parametrize(
    "block", [b"", b"a\nb\n", b"a\r\nb\r\n", b"one\r", b"a\rb\n", b"\r 10 %", b"\n"]
)
def test_what_stays_as_it_is(block: bytes):
    """Lines, line ends of Windows, a single state: there is nothing to thin out."""
    assert Thinner().thin(block, 0.0) == block


def test_of_many_states_the_last_one_is_shown():
    """States that come together are one to the eye."""
    thinner = Thinner()
    assert thinner.thin(b"1 %\r2 %\r3 %\r", 10.0) == b"3 %\r"
    assert thinner.thin(b"4 %\r5 %\r", 10.1) == b""
    assert thinner.due(10.1) == pytest.approx(INTERVAL_S - 0.1)
    assert thinner.release(10.2) == b"5 %\r"
    assert thinner.due(10.2) == float("inf")


def test_the_end_of_the_line_replaces_what_was_held():
    """A bar's last state stands in the line's own end."""
    thinner = Thinner()
    thinner.thin(b"1 %\r", 10.0)
    assert thinner.thin(b"2 %\r", 10.1) == b""
    assert thinner.thin(b"done\n", 10.15) == b"done\n"
    assert thinner.held == b""


def test_an_empty_end_does_not_swallow_the_last_state():
    """A bar that only ends its line keeps what it said last."""
    thinner = Thinner()
    thinner.thin(b"99 %\r", 10.0)
    assert thinner.thin(b"100 %\r", 10.1) == b""
    assert thinner.thin(b"\n", 10.15) == b"100 %\r\n"


def test_lines_behind_a_bar_are_whole():
    """Only the bar's own states are dropped."""
    thinner = Thinner()
    thinner.thin(b"0 %\r", 10.0)
    assert thinner.thin(b"1 %\r2 %\rloss=1\nloss=2\n3 %\r", 10.1) == b"loss=1\nloss=2\n"
    assert thinner.held == b"3 %\r"


pieces = st.lists(st.sampled_from([b"a\n", b"b\r", b"c\r\n", b"\n", b"\r", b"d e\n"]), max_size=12)


@given(st.lists(pieces, max_size=6), st.sampled_from([0.0, 0.05, 0.3]))
def test_no_line_is_ever_lost(blocks: list[list[bytes]], step: float):
    """Whatever comes in whatever blocks, each line's end is shown, once and in order."""
    thinner, shown, now = Thinner(), b"", 0.0
    for block in blocks:
        shown += thinner.thin(b"".join(block), now)
        now += step
    shown += thinner.release(now)
    whole = b"".join(piece for block in blocks for piece in block)

    def ends(data: bytes) -> list[bytes]:
        lines = data.replace(b"\r\n", b"\n").split(b"\n")
        return [line.rpartition(b"\r")[2] for line in lines[:-1]]

    assert ends(shown) == ends(whole)
