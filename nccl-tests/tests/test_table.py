import pytest
from nccl_table import read

from muster_perf.table import Half, Row, fit, footer, header, row

HEADER = [
    "#",
    "#                                                              out-of-place                       in-place          ",
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         ",
]
GOLDEN = "  1073741824     268435456     float     sum      -1  4224.10  254.19  476.61       0  4230.60  253.80  475.88       0"


def made(**changes) -> Row:
    out = Half(4224.1, 254.19, 476.61, 0)
    values = {
        "size": 1073741824,
        "count": 268435456,
        "type": "float",
        "redop": "sum",
        "root": -1,
        "out_of_place": out,
        "in_place": Half(4230.6, 253.8, 475.88, 0),
    }
    return Row(**values | changes)


def test_golden_header_and_row():
    """Header and row are NVIDIA's to the byte."""
    assert header(timestamps=False) == HEADER
    assert row(made()) == GOLDEN


def test_timestamps():
    """With -S each row ends with the time, in a column of 21 characters, and the header names it."""
    *_, names, units = header(timestamps=True)
    assert names == HEADER[2] + "          timestamp"
    assert units == HEADER[3] + "  %Y-%m-%d %H:%M:%S"
    assert row(made(), "2026-12-01 10:00:00") == GOLDEN + "  2026-12-01 10:00:00"


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        (0.0, 7, "   0.00"),
        (0.004, 7, "   0.00"),
        (1.0, 7, "   1.00"),
        (9999.99, 7, "9999.99"),
        (9999.996, 7, "10000.0"),
        (10_000.0, 7, "10000.0"),
        (99_999.94, 7, "99999.9"),
        (100_000.0, 7, " 100000"),
        (1_234_567.8, 7, "1234568"),
        (9_999_999.4, 7, "9999999"),
        (12_345_678.0, 7, "1.2e+07"),
        (0.0, 6, "  0.00"),
        (476.61, 6, "476.61"),
        (999.996, 6, "1000.0"),
        (1234.56, 6, "1234.6"),
        (12_345.6, 6, " 12346"),
        (123_456.0, 6, "123456"),
        (1_234_567.0, 6, " 1e+06"),
    ],
)
def test_numbers_fit_their_columns(value, width, text):
    """Two decimals, one, none, then an exponent: whatever fits, and never one character more."""
    assert fit(value, width) == text
    assert len(text) == width


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (None, "   N/A"),
        (0, "     0"),
        (7, "     7"),
        (999_999, "999999"),
        (1_234_567, "1.23457e+06"),
    ],
)
def test_wrong_values(wrong, text):
    """#wrong is a number of up to six digits, then an exponent; N/A where nothing was checked."""
    half = Half(4230.6, 253.8, 475.88, wrong)
    assert row(made(in_place=half)) == GOLDEN[: -len("     0")] + text


@pytest.mark.parametrize(("size", "count"), [(0, 0), (8, 2), (2**40, 2**38), (10**13, 10**12)])
@pytest.mark.parametrize("value", [0.0, 0.37, 12.5, 99_999.97, 3e8])
def test_any_row_has_13_words(size, count, value):
    """Whatever the values are, a program that splits at blanks finds the same 13 columns."""
    halves = {
        "out_of_place": Half(value, value, value, None),
        "in_place": Half(value, value, value, 3),
    }
    text = row(made(size=size, count=count, **halves))
    printed = "\n".join([*header(timestamps=False), text, *footer("x_perf", 3, 0.5, "")])
    (line,) = read(printed).rows
    assert (line.size, line.count, line.out_wrong, line.in_wrong) == (size, count, "N/A", "3")
    assert line.out_time == pytest.approx(value, rel=0.06, abs=0.005)


def test_prefixes_of_launchers_change_nothing():
    """A row is still read behind mpirun's and srun's prefixes."""
    text = "\n".join([GOLDEN, *footer("x_perf", 0, 476.245, "OK")])
    for prefix in ("[1,0]<stdout>:", "0: "):
        assert read("\n".join(prefix + line for line in text.splitlines())) == read(text)


def test_footer():
    """The lines below the rows are NVIDIA's, with a blank at the end where no minimum was asked for."""
    assert footer("all_reduce_perf", 0, 476.2449, "") == [
        "# Out of bounds values : 0 OK",
        "# Avg bus bandwidth    : 476.245 ",
        "#",
        "# Collective test concluded: all_reduce_perf",
    ]
    assert footer("x", 2, 1e-5, "FAILED")[:2] == [
        "# Out of bounds values : 2 FAILED",
        "# Avg bus bandwidth    : 1e-05 FAILED",
    ]
