import pytest

from muster_perf.errors import PerfError
from muster_perf.gate import Gate, read_minimum
from muster_perf.table import Half, Row


def made(size: int, out: float, inside: float, wrong: int | None = 0) -> Row:
    return Row(
        size, size // 4, "float", "sum", -1, Half(1.0, out, out, wrong), Half(1.0, inside, inside, wrong)
    )  # fmt: skip


def gate(minimum: float | None, *rows: Row, ranks: int = 2) -> Gate:
    made = Gate(minimum, ranks)
    for row in rows:
        made.add(row)
    return made


def test_the_average_is_of_every_busbw():
    """All sizes, both halves, as NVIDIA's: for comparison with other logs, not to decide by."""
    assert gate(None, made(8, 0.0, 1.0), made(1024, 10.0, 13.0)).average == pytest.approx(6.0)
    assert gate(None).average == 0.0


@pytest.mark.parametrize(
    ("minimum", "verdict"), [(None, ""), (13.0, "OK"), (14.4, "OK"), (14.5, "FAILED"), (0.0, "OK")]
)
def test_the_largest_size_decides(minimum, verdict):
    """The better half of the largest size, with NVIDIA's tenth of slack; small sizes don't drag it down."""
    found = gate(minimum, made(8, 0.0, 0.1), made(1024, 10.0, 13.0))
    assert found.verdict == verdict
    assert bool(found.problem()) == (verdict == "FAILED")
    assert bool(found.lines()) == (minimum is not None)


def test_the_worst_of_several_rows_of_that_size_decides():
    """Another type, root or cycle can't hide a slow one."""
    rows = (made(1024, 50.0, 50.0), made(1024, 1.0, 2.0), made(1024, 50.0, 50.0))
    found = gate(10.0, *rows)
    assert found.verdict == "FAILED"
    assert "2 GB/s at 1024 B" in found.problem()


def test_wrong_values_are_a_failure_whatever_the_speed():
    """They are summed over all rows; what was not checked is not wrong."""
    found = gate(1.0, made(8, 9.0, 9.0, 3), made(16, 9.0, 9.0, None))
    assert (found.wrong, found.verdict) == (6, "OK")
    assert found.problem().startswith("6 wrong values")
    assert gate(None, made(8, 9.0, 9.0, None)).problem() == ""


def test_one_rank_misses_no_minimum():
    """Its bus bandwidth is 0 by definition."""
    found = gate(10.0, made(1024, 0.0, 0.0), ranks=1)
    assert (found.verdict, found.problem()) == ("", "")


@pytest.mark.parametrize("text", ["fast", "1,5", "nan", "inf"])
def test_a_minimum_that_is_no_number_is_refused(text):
    """NVIDIA's would take it for 0, which nothing can miss."""
    with pytest.raises(PerfError, match="is no number of GB/s"):
        read_minimum({"NCCL_TESTS_MIN_BW": text})
    assert read_minimum({"NCCL_TESTS_MIN_BW": ""}) is None
    assert read_minimum({}) is None
    assert read_minimum({"NCCL_TESTS_MIN_BW": "1.5e2"}) == 150.0
