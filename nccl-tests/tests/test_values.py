import pytest
import torch

from muster_perf.calls import DTYPES
from muster_perf.operations import OPERATIONS
from muster_perf.sizes import counts
from muster_perf.values import Case, Piece, expected, sent, tolerance
from muster_perf.verify import count_wrong, fill, scaled

REDUCING = {"sum": sum, "prod": lambda values: __import__("math").prod(values), "min": min, "max": max}  # fmt: skip


def elements(pieces: list[Piece]) -> list[float]:
    """The values of all pieces, one by one."""
    return [
        values[(offset + i) % len(values)]
        for values, offset, length in pieces
        for i in range(length)
    ]


def by_hand(case: Case, sends: list[list[float]], rank: int, part: int) -> list[float]:
    """What the definition of each collective makes of what the ranks send."""
    name, root = case.operation.name, case.root
    own = slice(rank * part, (rank + 1) * part)
    if name in ("reduce", "gather") and rank != root:
        return []
    if case.operation.reduces:
        whole = [REDUCING[case.redop](column) for column in zip(*sends, strict=True)]
        return whole[own] if name == "reduce_scatter" else whole
    return {
        "all_gather": lambda: [value for each in sends for value in each],
        "gather": lambda: [value for each in sends for value in each],
        "alltoall": lambda: [value for each in sends for value in each[own]],
        "broadcast": lambda: sends[root],
        "scatter": lambda: sends[root][own],
        "sendrecv": lambda: sends[rank - 1],
    }[name]()


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("redop", ["sum", "prod", "min", "max"])
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_expected_values_follow_from_what_is_sent(name, redop, ranks):
    """For every rank, root and repetition the expected values are what the collective's definition gives."""
    operation = OPERATIONS[name]
    for root in range(ranks if operation.rooted else 1):
        for repeat in (0, 3):
            case = Case(operation, redop, "float", ranks, root, repeat)
            sized = counts(operation, 4000, 4, ranks)
            sends = [elements(sent(case, rank, sized)) for rank in range(ranks)]
            for rank in range(ranks):
                wanted = by_hand(case, sends, rank, sized.count)
                assert elements(expected(case, rank, sized)) == wanted


@pytest.mark.parametrize("type_", sorted(DTYPES))
@pytest.mark.parametrize("ranks", [2, 17, 64, 300])
def test_every_value_is_exact(type_, ranks):
    """No sum or product of up to 300 ranks is rounded or wraps around, in any type."""
    dtype = DTYPES[type_]
    for redop in ("sum", "prod"):
        case = Case(OPERATIONS["all_reduce"], redop, type_, ranks, 0)
        (piece,) = expected(case, 0, counts(case.operation, 4096, dtype.itemsize, ranks))
        assert torch.tensor(piece.values, dtype=dtype).tolist() == list(piece.values)
        assert len(set(piece.values)) > 1
    limit = {"bfloat16": 256, "half": 2048}.get(type_)
    summed = Case(OPERATIONS["all_reduce"], "sum", type_, ranks, 0)
    (piece,) = expected(summed, 0, counts(summed.operation, 4096, dtype.itemsize, ranks))
    assert limit is None or max(piece.values) <= limit


def test_ranks_and_repetitions_differ():
    """A part of another rank, or the result of the repetition before, is not taken for the right one."""
    operation = OPERATIONS["all_gather"]
    sized = counts(operation, 4000, 4, 5)
    seen = {
        tuple(elements(sent(Case(operation, "sum", "float", 5, 0, repeat), rank, sized)))
        for rank in range(5)
        for repeat in range(5)
    }
    assert len(seen) == 25


@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 3_000_000])
def test_filling_and_counting(length):
    """A filled buffer has nothing wrong; each changed element, also to NaN, counts once."""
    pieces = [Piece(tuple(range(127)), 5, length), Piece((1, 2, 3), 1, 7)]
    buffer = torch.zeros(length + 7)
    fill(buffer, pieces)
    assert count_wrong(buffer, pieces, 0.0) == 0
    assert buffer[:9].tolist() == elements(pieces)[:9]
    assert buffer[-7:].tolist() == [2, 3, 1, 2, 3, 1, 2]
    buffer[0] += 1
    buffer[-1] = float("nan")
    assert count_wrong(buffer, pieces, 0.0) == count_wrong(buffer, pieces, 0.5) == 2


def test_only_averages_of_floats_are_rounded():
    """Everything else must be equal to the bit; an average's room is far below one."""
    for redop, type_, exact in (
        ("sum", "half", True),
        ("avg", "int32", True),
        ("avg", "float", False),
    ):
        case = Case(OPERATIONS["all_reduce"], redop, type_, 8, 0)
        assert (tolerance(case) == 0.0) == exact
        assert tolerance(case) < 0.01
    assert tolerance(Case(OPERATIONS["all_gather"], "avg", "float", 8, 0)) == 0.0
    (piece,) = scaled([Piece((3, 6), 0, 2)], torch.zeros(2), 2)
    assert piece.values == (1.5, 3.0)
    (piece,) = scaled([Piece((3, 6), 0, 2)], torch.zeros(2, dtype=torch.int32), 2)
    assert piece.values == (1, 3)
