"""Real worlds of ranks, over gloo."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nccl_table import read
from perf_worlds import BIN, ROOT, environment, free_port, torchrun

from muster_perf.operations import OPERATIONS

FLIPPING = str(Path(__file__).parent / "flipping.py")
UNCHECKED = ("alltoall", "sendrecv")
"""In place, as NVIDIA's."""


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_two_ranks(name, perf):
    """Each collective prints its table, all values are right, and the numbers fit each other."""
    done = perf(name, "-b", "64", "-e", "64K", "-f", "32", "-n", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    output = read(done.stdout)
    operation = OPERATIONS[name]
    assert output.concluded == f"{name}_perf"
    assert output.out_of_bounds == (0, "OK")
    assert [line.size for line in output.rows] == [64, 2048, 65536]
    for line in output.rows:
        assert line.count * 4 * (2 if operation.divided else 1) == line.size
        assert (line.redop, line.root) == (
            "sum" if operation.reduces else operation.redop,
            0 if operation.rooted else -1,
        )
        assert line.out_wrong == "0"
        assert line.in_wrong == ("N/A" if name in UNCHECKED else "0")
    last = output.rows[-1]
    assert last.out_algbw == pytest.approx(last.size / 1e3 / last.out_time, abs=0.006)
    assert last.out_busbw == pytest.approx(last.out_algbw * operation.factor(2), abs=0.011)
    rates = [rate for line in output.rows for rate in (line.out_busbw, line.in_busbw)]
    assert output.average == pytest.approx(sum(rates) / len(rates), abs=0.01)


@pytest.mark.parametrize("name", ["all_reduce", "reduce_scatter", "reduce"])
def test_every_type_and_operation_on_three_ranks(name, perf):
    """Whatever gloo has of 8 types and 5 operations is right; what it lacks is named, and nothing else is left out."""
    done = perf(name, "-b", "6000", "-e", "6000", "-n", "1", "-o", "all", "-d", "all", "-r", "-1", ranks=3)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    output = read(done.stdout)
    skipped = re.findall(r"# skipped: backend gloo has no \w+ by (\w+) of (\w+):", done.stdout)
    assert {op for op, _ in skipped} == {"avg"}
    roots = 3 if OPERATIONS[name].rooted else 1
    assert len(output.rows) == (8 * 5 - len(skipped)) * roots
    assert {(line.out_wrong, line.in_wrong) for line in output.rows} == {("0", "0")}


@pytest.mark.parametrize(
    "name", ["all_gather", "alltoall", "broadcast", "gather", "scatter", "sendrecv"]
)
def test_every_type_is_moved_on_three_ranks(name, perf):
    """Sizes that don't divide by the ranks, every type, every root: all values arrive."""
    done = perf(name, "-b", "100", "-e", "2100", "-i", "1000", "-n", "1", "-d", "all", "-r", "-1", ranks=3)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    output = read(done.stdout)
    assert len(output.rows) == 3 * 8 * (3 if OPERATIONS[name].rooted else 1)
    assert {line.out_wrong for line in output.rows} == {"0"}


def test_one_process_alone(perf):
    """Without a launcher: bus bandwidth 0.00 with a note, no minimum that it could miss, no open port, status 0."""
    done = perf("all_reduce", "-b", "1M", "-e", "1M", "-n", "2", ranks=1, NCCL_TESTS_MIN_BW="100")
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = read(done.stdout).rows
    assert (line.out_busbw, line.in_busbw, line.out_wrong) == (0.0, 0.0, "0")
    assert line.in_algbw > 0
    assert "# note: one rank: nothing crosses a link" in done.stdout
    assert "# note: NCCL_TESTS_MIN_BW is left aside" in done.stdout


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_a_flipped_value_is_counted(name):
    """One value that is wrong on one rank is one in #wrong, in the sum below, and the status of every rank."""
    # The rank that gets it wrong must be one that has a result.
    root = ("-r", "1") if OPERATIONS[name].rooted else ()
    words = ("-b", "1K", "-e", "1K", "-n", "1", "-c", "2", *root)
    done = torchrun([FLIPPING, "call", name, *words], 2)
    assert done.returncode != 0
    output = read(done.stdout)
    (line,) = output.rows
    assert line.out_wrong == "1"
    assert line.in_wrong == ("N/A" if name in UNCHECKED else "1")
    assert output.out_of_bounds == (1 if name in UNCHECKED else 2, "FAILED")
    told = f"{name}_perf: {output.out_of_bounds[0]} wrong values over all ranks"
    assert done.stderr.count(told) == 2


def test_a_backend_that_flips_a_value():
    """A backend that somebody else has registered is measured by its name, and found out."""
    done = torchrun([FLIPPING, "backend", "all_reduce", "-b", "1K", "-e", "1K", "-n", "1"], 2)
    assert done.returncode != 0
    output = read(done.stdout)
    assert "backend=flipping" in done.stdout
    assert (output.rows[0].out_wrong, output.rows[0].in_wrong) == ("1", "1")
    unchecked = torchrun(
        [FLIPPING, "backend", "all_reduce", "-b", "1K", "-e", "1K", "-n", "1", "-c", "0"], 2
    )
    assert unchecked.returncode == 0, unchecked.stderr
    assert read(unchecked.stdout).rows[0].out_wrong == "N/A"


@pytest.mark.parametrize(
    ("minimum", "status", "verdict"), [("0.000001", 0, "OK"), ("1e6", 1, "FAILED")]
)
def test_a_minimum_on_the_largest_size(minimum, status, verdict, perf, tmp_path):
    """NCCL_TESTS_MIN_BW decides by the largest size, and a line says so; a miss is a failure on every rank."""
    out = tmp_path / "out.json"
    done = perf("all_gather", "-b", "8K", "-e", "1M", "-f", "128", "-n", "2", "-J", str(out), NCCL_TESTS_MIN_BW=minimum)  # fmt: skip
    assert (done.returncode != 0) == bool(status)
    assert read(done.stdout).verdict == verdict
    assert "# note: NCCL_TESTS_MIN_BW=" in done.stdout
    assert "the 1048576 B row's better half" in done.stdout
    okay = json.loads(out.read_text())["average_bus_bandwidth"]["okay"]
    assert okay == ("true" if verdict == "OK" else "false")


@pytest.mark.parametrize(
    ("flags", "env"), [(("--world", "3"), {}), ((), {"MUSTER_EXPECT_WORLD": "3"})]
)
def test_a_world_smaller_than_asked(flags, env, perf):
    """Fewer ranks than the user counts on: nothing is measured, and the status says so."""
    done = perf("all_reduce", *flags, **env)
    assert done.returncode != 0
    assert "all_reduce_perf: 2 ranks have met, 3 were asked for" in done.stderr
    assert "Collective test concluded" not in done.stdout
    alone = perf("all_reduce", "--world", "2", ranks=1)
    assert alone.returncode == 1
    assert "1 ranks have met, 2 were asked for" in alone.stderr
    enough = perf("all_reduce", "--world", "2", "-b", "8", "-e", "8", "-n", "1")
    assert enough.returncode == 0, enough.stderr


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--backend", "nccl"), "backend nccl"),
        (("--backend", "nosuch"), "backend nosuch is not registered in this torch"),
        (("-o", "avg", "-d", "int32"), "backend gloo has no all_reduce by avg of int32"),
    ],
)
def test_what_a_backend_lacks_is_refused_by_name(flags, told, perf):
    """Status 2, and a line that names the backend and what it doesn't have; no table."""
    done = perf("all_reduce", "-b", "8", "-e", "8", *flags, ranks=1, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2, done.stdout
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "algbw" not in done.stdout


def smddp(name: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Over a stand-in of SageMaker's data parallel library."""
    wanted = ("SMDATAPARALLEL_SERVER_ADDR", "SMDATAPARALLEL_SERVER_PORT", "SAGEMAKER_INSTANCE_TYPE")
    env = dict.fromkeys((*wanted, "SMDDPRUN"), "1")
    env["PYTHONPATH"] = str(ROOT / "tests/support/smddp")
    sizes = ("-b", "1K", "-e", "1K", "-n", "1")
    return torchrun([str(BIN / f"{name}_perf"), "--backend", "smddp", *sizes, *flags], 2, env)


def test_smddp():
    """What smddp has is measured and its name told; a gather is into a list; what it lacks is refused by name."""
    for name in ("all_reduce", "all_gather"):
        done = smddp(name)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "backend=smddp" in done.stdout
        assert ("# note: backend smddp gathers into a list" in done.stdout) == (
            name == "all_gather"
        )
        assert read(done.stdout).out_of_bounds == (0, "OK")
    for name in ("reduce_scatter", "sendrecv"):
        done = smddp(name)
        assert done.returncode != 0
        assert f"{name}_perf: backend smddp has no {name}" in done.stderr


@pytest.mark.parametrize(
    ("flags", "rows"),
    [("-z 1 -a 0 -T 60", 2), ("-z 2 -a 2 -m 3", 2), ("-w 0 -a 3 -N 2", 4)],
)
def test_ways_to_run(flags, rows, perf):
    """Waiting after each call, whose time counts, aggregation, no warm-up, cycles: each gives a whole table."""
    done = perf("all_reduce", "-b", "1K", "-e", "2K", "-f", "2", "-n", "2", *flags.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(read(done.stdout).rows) == rows
    assert ("# Blocking Enabled" in done.stdout) == ("-z" in flags)


def test_json_has_nccl_tests_schema_and_no_environment(perf, tmp_path):
    """The keys of version 3, with the same numbers as the table; no variable of the environment is in it."""
    out = tmp_path / "out.json"
    words = ("-b", "1K", "-e", "64K", "-f", "64", "-n", "2", "-J", str(out))
    first = perf("sendrecv", *words, MY_SECRET_TOKEN="canary-5f2d9c")
    again = perf("sendrecv", *words)
    assert first.returncode == again.returncode == 0, first.stderr + again.stderr
    assert f"# Writing JSON output to {out}.0" in again.stdout
    text = out.read_text()
    assert "canary" not in text
    run = json.loads(text)
    ours = run.pop("muster")
    assert list(run) == [
        *("version", "start_time", "args", "nccl_version", "config", "results"),
        *("out_of_bounds", "average_bus_bandwidth", "errors", "end_time"),
    ]
    assert run["version"] == 3
    assert run["args"] == ["sendrecv_perf", *words]
    assert run["out_of_bounds"] == {"count": 0, "okay": "true"}
    assert run["average_bus_bandwidth"]["okay"] == "unchecked"
    assert run["config"]["step_factor"] == 64
    assert [one["rank"] for one in run["config"]["devices"]] == [0, 1]
    for line, result in zip(read(first.stdout).rows, run["results"], strict=True):
        assert set(result) == {
            *("size", "count", "type", "redop", "root", "out_of_place", "in_place"),
            *("actual_iterations", "experiment_name"),
        }
        assert (result["size"], result["count"], result["root"]) == (
            line.size,
            line.count,
            "    -1",
        )
        assert result["out_of_place"]["time"] == pytest.approx(line.out_time, rel=0.05, abs=0.01)
        assert result["out_of_place"]["nwrong"] == 0.0
        assert result["in_place"]["nwrong"] is None
        assert result["actual_iterations"] == 2
    assert (ours["collective"], ours["world"], ours["backend"]) == ("sendrecv", 2, "gloo")
    assert set(ours["seconds"]) >= {"start and imports", "meeting", "first calls", "measuring"}


def test_a_file_that_can_not_be_written(perf, tmp_path):
    """The table is still printed, and a line says that there is no file."""
    done = perf("all_reduce", "-b", "8", "-e", "8", "-n", "1", "-J", str(tmp_path / "no/out.json"), ranks=1)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "# skipping json output;" in done.stdout
    assert len(read(done.stdout).rows) == 1


def test_where_the_time_went(perf):
    """The last lines have the seconds since the process began, imports among them; their sum is the whole."""
    done = perf("all_reduce", "-b", "8", "-e", "8", "-n", "1")
    (line,) = re.findall(r"^# Time \(s\): (.+)$", done.stdout, re.MULTILINE)
    parts = dict(re.findall(r"([a-z -]+?) (\d+\.\d\d)", line.replace(",", "").replace(";", "")))
    seconds = {name.strip(): float(value) for name, value in parts.items()}
    whole = seconds.pop("together")
    assert seconds["start and imports"] > 0.1
    assert sum(seconds.values()) == pytest.approx(whole, abs=0.05)


def start(*words: str, **env: str) -> subprocess.Popen[str]:
    """Start a rank as a launcher would that isn't torch's."""
    return subprocess.Popen(
        [sys.executable, "-m", "muster_perf", *words],
        env=environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_under_bare_mpirun():
    """The variables of mpirun are enough on one host: the ranks meet on the loopback."""
    port = str(free_port())
    ranks = [
        start(
            "all_reduce", "-b", "1K", "-e", "1K", "-n", "1",
            OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="2", MASTER_PORT=port,
            OMPI_COMM_WORLD_LOCAL_RANK=str(rank), OMPI_COMM_WORLD_LOCAL_SIZE="2",
        )
        for rank in range(2)
    ]  # fmt: skip
    outputs = [rank.communicate(timeout=60) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    assert len(read(outputs[0][0]).rows) == 1
    assert outputs[1][0] == ""


def test_by_host(tmp_path):
    """Three hosts of two ranks: each pair's rate, each host's, and the pairs with the slowest first."""
    port, out = str(free_port()), tmp_path / "out.json"
    shared = {"WORLD_SIZE": "6", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    words = ("all_reduce", "-b", "64K", "-e", "64K", "-n", "2", "--by-host", "-J", str(out))
    ranks = [
        start(*words, RANK=str(rank), SM_CURRENT_HOST=f"algo-{rank // 2 + 1}", **shared)
        for rank in range(6)
    ]
    outputs = [rank.communicate(timeout=100) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * 6, outputs
    text = outputs[0][0]
    assert len(read(text).rows) == 1
    told = re.findall(r"^#  (algo-\d) (algo-\d) +(\d+\.\d\d) ", text, re.MULTILINE)
    assert {(one, another) for one, another, _ in told} == {
        ("algo-1", "algo-2"), ("algo-1", "algo-3"), ("algo-2", "algo-3"),
    }  # fmt: skip
    rates = [float(rate) for *_, rate in told]
    assert rates == sorted(rates)
    assert (
        len(re.findall(r"^#  algo-\d  +\d+\.\d\d  +\d+\.\d\d  +\d+\.\d\d$", text, re.MULTILINE))
        == 3
    )
    view = json.loads(out.read_text())["muster"]["by_host"]
    assert [pair["send_gb_s"] > 0 for pair in view["pairs"]] == [True] * 3


@pytest.mark.parametrize("way", ["file", "command"])
def test_muster_local(way, tmp_path):
    """`muster local`, by the command's name or by its file: two hosts, the whole table, no code of one's own."""
    command = "all_reduce_perf" if way == "command" else str(BIN / "all_reduce_perf")
    words = ["local", command, "--hosts", "2", "--", "-b", "1K", "-e", "1K", "-n", "1"]
    done = subprocess.run(
        [str(BIN / "muster"), *words],
        cwd=tmp_path,
        env=environment(PATH=f"{BIN}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    head = done.stdout.partition("\nmuster local")[0]
    assert len(read(head).rows) == 1
    assert re.findall(r"#  Rank +\d .+ on +(algo-\d) ", head) == ["algo-1", "algo-2"]


def test_muster_train(tmp_path):
    """`muster train all_reduce_perf -b 8`: ranks under the default launcher, one host here; a refused flag is told."""
    env = environment(SAGEMAKER_BASE_DIR=str(tmp_path / "ml"), MUSTER_NPROC="2")
    words = [str(BIN / "muster"), "train", "all_reduce_perf", "-b", "8", "-e", "1K", "-f", "2"]
    done = subprocess.run(
        words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(read(done.stdout).rows) == 8
    assert "launcher torchrun" in done.stderr
    refused = subprocess.run(
        [*words, "-G", "1"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip
    assert refused.returncode == 2
    failure = (tmp_path / "ml/output/failure").read_text()
    assert "-G/--cudagraph is not supported" in failure
