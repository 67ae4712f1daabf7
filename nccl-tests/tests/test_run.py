"""A run in this very process, alone."""

import json
import os

import pytest
import torch
from nccl_table import read
from perf_worlds import LAUNCHERS

from muster_perf import measure, memory, run
from muster_perf.calls import Buffers
from muster_perf.commands import main
from muster_perf.errors import PerfError
from muster_perf.flags import Flags
from muster_perf.measure import Bench
from muster_perf.operations import OPERATIONS
from muster_perf.sizes import counts
from muster_perf.values import Case
from muster_perf.world import Identity, World, _gpu


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    """Nothing of a launcher's is in the environment."""
    for name in [name for name in os.environ if name.startswith((*LAUNCHERS, "SM_", "NCCL_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def gpu_world() -> World:
    """A rank that has the GPU 1, for what asks no GPU."""
    return World(0, 2, 1, "algo-1", "nccl", torch.device("cuda", 1))


def test_memory_sets_the_largest_size(monkeypatch, capsys):
    """Where a rank's memory doesn't hold the buffers the sweep ends earlier, and a line says where."""
    monkeypatch.setattr(run, "available", lambda *_: 100_000)
    assert main("all_reduce", ["-b", "1K", "-e", "1M", "-f", "2", "-n", "1"]) == 0
    said = capsys.readouterr().out
    assert "# Reducing maxBytes to 40000 due to memory limitation" in said
    assert [line.size for line in read(said).rows] == [1024, 2048, 4096, 8192, 16384, 32768]


@pytest.mark.parametrize(
    ("instance", "flags", "told"),
    [
        ("ml.p4d.24xlarge", ["-e", "1G", "-b", "1G"], "busbw 230, measured (stas00; NVIDIA/nccl issue 527"),
        ("ml.p4d.24xlarge", ["-e", "1M", "-b", "1M"], "no expectation for all_reduce of 1048576 B"),
        ("ml.g5.48xlarge", ["-e", "1G", "-b", "1G"], "no trustworthy number is public"),
    ],
)  # fmt: skip
def test_what_is_expected_is_told_beforehand(instance, flags, told, monkeypatch, capsys):
    """On an instance that is named the note above the table has the number, or why there is none."""
    monkeypatch.setenv("SM_CURRENT_INSTANCE_TYPE", instance)
    # What is said before the sweep is all that is looked at.
    monkeypatch.setattr(run._Session, "_sweep", lambda *_: None)
    assert main("all_reduce", flags) == 0
    assert told in capsys.readouterr().out


def test_a_recorded_run_says_what_is_expected(tmp_path, monkeypatch, capsys):
    """MUSTER_BASELINE names a run's JSON: the next run says in its note and its own JSON what it is held against."""
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    flags = ["-b", "4K", "-e", "64K", "-f", "4", "-n", "2"]
    assert main("all_reduce", [*flags, "-J", str(first)]) == 0
    monkeypatch.setenv("MUSTER_BASELINE", str(first))
    capsys.readouterr()
    assert main("all_reduce", [*flags, "-J", str(second)]) == 0
    assert (
        "# note: expected for all_reduce of 65536 B on 1 x this machine: "
        in capsys.readouterr().out
    )
    unknown, known = (
        json.loads(path.read_text())["muster"]["expected"] for path in (first, second)
    )
    assert (unknown["size"], unknown["expected"]) == (65536, None)
    assert (known["kind"], known["source"]) == ("recorded", str(first))


def test_a_root_that_is_no_rank(capsys):
    """The number of ranks is told, with status 2."""
    assert main("broadcast", ["-r", "1"]) == 2
    assert "-r 1: there are 1 ranks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("local_rank", "gpus", "env", "index"),
    [
        (0, 8, {}, 0),
        (7, 8, {}, 7),
        (3, 1, {}, 0),
        (1, 2, {"NCCL_TESTS_DEVICE": "0"}, 0),
        (8, 8, {}, None),
        (0, 2, {"NCCL_TESTS_DEVICE": "2"}, None),
    ],
    ids=["first", "last", "one-shown", "chosen", "too-few", "chosen-absent"],
)
def test_the_gpu_of_a_rank(local_rank, gpus, env, index):
    """Its local number, the one it is shown, or the one that is chosen; a rank without one is told so."""
    identity = Identity(9, 16, local_rank, 8, "env://")
    if index is None:
        with pytest.raises(PerfError, match="rank 9 has no GPU"):
            _gpu(identity, gpus, env)
    else:
        assert _gpu(identity, gpus, env) == index


def test_the_memory_of_a_gpu(gpu_world, monkeypatch):
    """Of 80 GiB four are in reserve and one is NCCL's; what is free is the limit, too."""
    gib = 2**30
    for free, most in ((80 * gib, 75 * gib), (10 * gib, 10 * gib)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _, free=free: (free, 80 * gib))
        assert memory.available(gpu_world, 8) == most


def test_a_gpu_is_timed_by_its_events(gpu_world, monkeypatch):
    """All calls lie between two events, are waited for once, and the events' time is shared among them."""
    happened = []

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            happened.append("record")

        def synchronize(self) -> None:
            happened.append("wait")

        def elapsed_time(self, _last: object) -> float:
            return 12.0

    monkeypatch.setattr(measure.torch.cuda, "Event", Event)
    case = Case(OPERATIONS["all_reduce"], "sum", "float", 2, 0)
    bench = Bench(gpu_world, Flags(), Buffers(8, torch.device("cpu")), case, lists=False)
    seconds = bench._time([lambda: happened.append("a"), lambda: happened.append("b")], 3)
    assert happened == ["record", "a", "b", "a", "record", "wait"]
    assert seconds == pytest.approx(12.0 / 1000 / 3)


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_buffers_in_place(name):
    """In place what is sent lies in the receive buffer, where NCCL wants it; out of place in another; steps don't meet."""
    operation, ranks, rank = OPERATIONS[name], 4, 2
    case = Case(operation, "sum", "float", ranks, 0)
    sized = counts(operation, 1024, 4, ranks)
    buffers = Buffers(8192, torch.device("cpu"))
    assert buffers.steps(sized, 4) == 8
    send, receive = buffers.views(case, rank, sized, in_place=True, step=1)
    offset = (send.data_ptr() - receive.data_ptr()) // 4
    assert offset == {
        "all_gather": rank * sized.count,
        "gather": rank * sized.count,
        "reduce_scatter": -rank * sized.count,
        "scatter": -rank * sized.count,
    }.get(name, 0)
    assert (send.numel(), receive.numel()) == (sized.send, sized.receive)
    apart, into = buffers.views(case, rank, sized, in_place=False, step=1)
    assert abs(apart.data_ptr() - into.data_ptr()) >= 1024
    before, _ = buffers.views(case, rank, sized, in_place=False, step=0)
    assert apart.data_ptr() - before.data_ptr() == sized.bytes(4)
