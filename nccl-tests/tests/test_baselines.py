import json

import pytest
import tomllib

from muster_perf import PerfError, baselines, expect

GIB = 2**30
P5, P4DE, B200 = "ml.p5.48xlarge", "ml.p4de.24xlarge", "ml.p6-b200.48xlarge"


@pytest.fixture(scope="module")
def table():
    with open(baselines._TABLE, "rb") as file:
        return tomllib.load(file)


def test_every_row_says_where_it_is_from(table):
    """Source and date for each number; a row without a number says why there is none, and has none."""
    for row in (*table["baseline"], *table["size"], table["thresholds"]):
        assert row["source"]
        assert row["date"]
    for row in table["baseline"]:
        assert ("busbw" in row) != ("unknown" in row)
        assert ("busbw" in row) == ("kind" in row)
        assert row.get("kind", "measured") in ("measured", "derived")
        assert all(name.startswith("ml.") for name in row["instances"])


def test_no_two_rows_answer_one_question(table):
    """For each instance type, number of hosts and collective at most one row fits."""
    types = {name for row in table["baseline"] for name in row["instances"]}
    for name in types:
        for hosts in (1, 2, 3, 4, 500):
            for collective in ("all_reduce", "all_gather", "reduce_scatter"):
                fitting = [
                    row
                    for row in table["baseline"]
                    if baselines._fits(row, name, hosts, collective)
                ]
                assert len(fitting) <= 1, (name, hosts, collective)


@pytest.mark.parametrize("name", [P4DE, P5, "ml.p5en.48xlarge", B200])
def test_numbers_follow_the_derivation(name):
    """No number is above what its hosts' network can carry: 1.875 B on 2 hosts, B on 3 and more."""
    carried = {P4DE: 50, P5: 400, "ml.p5en.48xlarge": 400, B200: 400}[name]
    inside = expect(name, 1, "all_reduce", GIB).expected
    assert expect(name, 2, "all_reduce", GIB).expected <= min(inside, 1.875 * carried)
    assert expect(name, 3, "all_reduce", GIB).expected <= min(inside, carried)


@pytest.mark.parametrize(
    ("instance", "hosts", "expected"),
    [
        (P4DE, 1, 230), (P4DE, 2, 78), (P4DE, 16, 42), (P5, 1, 475), (P5, 2, 475), (P5, 3, 365),
        (B200, 1, 840), (B200, 2, 750), (B200, 4, 380), ("ml.p3dn.24xlarge", 2, 15),
    ],
)  # fmt: skip
def test_what_is_known(instance, hosts, expected):
    """From 1 GiB on the row's own number, at 512 MiB four fifths of it; half of it is the floor."""
    whole = expect(instance, hosts, "all_reduce", GIB)
    assert (whole.expected, whole.warn, whole.floor) == (expected, expected * 0.75, expected * 0.5)
    assert whole.source
    assert expect(instance, hosts, "all_reduce", 16 * GIB).expected == expected
    assert expect(instance, hosts, "all_reduce", GIB // 2).expected == pytest.approx(0.8 * expected)


@pytest.mark.parametrize(
    ("instance", "hosts", "collective", "size", "why"),
    [
        (P5, 2, "all_reduce", GIB // 2 - 1, "below 536870912 bytes"),
        (P5, 2, "alltoall", GIB, "no number is known for alltoall on 2 x ml.p5"),
        ("ml.g5.48xlarge", 2, "all_reduce", GIB, "no trustworthy number is public"),
        ("ml.p3dn.24xlarge", 1, "all_reduce", GIB, "only a threshold of another vendor's"),
        ("ml.c5.xlarge", 2, "all_reduce", GIB, "no number is known"),
    ],
)
def test_what_is_not_known_is_said(instance, hosts, collective, size, why):
    """No guess: no number, and the reason."""
    found = expect(instance, hosts, collective, size)
    assert (found.expected, found.warn, found.floor, found.kind) == (None, None, None, "unknown")
    assert why in found.reason


@pytest.fixture
def recorded(tmp_path):
    """A good run of the user's own, as -J writes it."""
    half = {"time": 1.0, "alg_bw": 100.0, "nwrong": 0.0}
    row = {
        "size": GIB,
        "out_of_place": half | {"bus_bw": 90.0},
        "in_place": half | {"bus_bw": 100.0},
    }
    muster = {"collective": "all_reduce", "hosts": 2, "instance_type": "ml.g5.48xlarge"}
    path = tmp_path / "good.json"
    path.write_text(json.dumps({"start_time": "2026-12-01", "results": [row], "muster": muster}))
    return str(path)


def test_a_run_of_ones_own_takes_the_tables_place(recorded):
    """Its better half is what is expected; 85 % of it is worth a look."""
    found = expect("ml.g5.48xlarge", 2, "all_reduce", GIB, recorded)
    assert (found.expected, found.warn, found.kind) == (100.0, 85.0, "recorded")
    assert (found.source, found.date) == (recorded, "2026-12-01")


@pytest.mark.parametrize(
    ("instance", "hosts", "collective", "size"),
    [
        (P5, 2, "all_reduce", GIB),
        ("ml.g5.48xlarge", 3, "all_reduce", GIB),
        ("ml.g5.48xlarge", 2, "all_gather", GIB),
        ("ml.g5.48xlarge", 2, "all_reduce", GIB // 2),
    ],
)
def test_a_run_of_something_else_is_no_baseline(recorded, instance, hosts, collective, size):
    """Another instance type, number of hosts, collective or size is not compared with, nor the table instead."""
    found = expect(instance, hosts, collective, size, recorded)
    assert found.expected is None
    assert "recorded all_reduce on 2 x ml.g5.48xlarge" in found.reason


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"muster": {}, "start_time": "", "results": [1]}']
)
def test_a_file_that_is_no_run(text, tmp_path):
    """The file's name, and how one is recorded."""
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(PerfError, match=r"bad\.json is no JSON of a run"):
        expect(P5, 2, "all_reduce", GIB, str(path))
    with pytest.raises(PerfError, match="absent"):
        expect(P5, 2, "all_reduce", GIB, str(tmp_path / "absent.json"))


def test_a_run_of_other_ranks_is_no_baseline(recorded):
    """Where the number matters to who asks; a run that tells none fits nobody then."""
    found = expect("ml.g5.48xlarge", 2, "all_reduce", GIB, recorded, ranks=16)
    assert found.expected is None
    assert found.reason.endswith(
        "and not all_reduce on 2 x ml.g5.48xlarge by 16 ranks of 1073741824 bytes"
    )
