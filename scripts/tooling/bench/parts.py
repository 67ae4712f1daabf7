"""What is measured: each part a job that every contender runs in turn."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tooling.bench import code, failures, processes
from tooling.bench.containers import CODE, FOLDER, Images, Job, cluster
from tooling.bench.results import CONTENDERS, Measurement
from tooling.machine import ScriptError, say

FIRST_LINE = b"bench: first line"
WARNING = "a warning that was handled: ValueError"
RANKS = 2
SMALL = 64
MB = 1e6


@dataclass(frozen=True)
class Setup:
    """What all parts share."""

    images: Images
    rounds: int
    lines: int
    after: int
    """Lines after one that says ValueError."""
    hosts: int = 512
    """Of the large roll call."""
    idle: float = 60.0
    """Seconds for which its channel is then watched."""
    archive: int = 200_000_000
    """Bytes of the code that is fetched."""


@dataclass(frozen=True)
class Part:
    """One job, who runs it, and how a run becomes figures by the keys of `titles`."""

    name: str
    contenders: tuple[str, ...]
    titles: Mapping[str, str]
    unit: str
    measure: Callable[[str, Setup], dict[str, float]]
    containers: bool = False
    units: Mapping[str, str] = field(default_factory=dict)
    """Of figures that have another one."""
    most: int = sys.maxsize
    """Rounds at most: for what takes long, and differs by more than chance."""


def two_hosts(name: str, setup: Setup) -> dict[str, float]:
    """Run a job on two hosts. Raises ScriptError. Effects: containers."""
    with cluster(name, setup.images, Job("collective.py", hosts=2)) as job:
        times = job.watch(FIRST_LINE)
    return {"job": times["exit"], "first_line": times["first_line"]}


def checks(name: str, setup: Setup) -> dict[str, float]:
    """Run the job on two hosts of muster's, with its checks or without. Raises ScriptError. Effects: containers."""
    env = {"MUSTER_CHECK": "fast" if name == "muster" else "off"}
    with cluster("muster", setup.images, Job("collective.py", hosts=2, env=env)) as job:
        return {"checks": job.watch(FIRST_LINE)["exit"]}


def mpirun(name: str, setup: Setup) -> dict[str, float]:
    """Run a script without torch under mpirun on two hosts. Raises ScriptError. Effects: containers."""
    job = Job("first.py", hosts=2, env={"MUSTER_LAUNCHER": "mpirun"}, strategy="smddp")
    with cluster(name, setup.images, job) as running:
        return {"mpirun": running.watch(FIRST_LINE)["exit"]}


def horovodrun(name: str, setup: Setup) -> dict[str, float]:
    """Run two ranks of Horovod on one host: bare, it would need SSH for more. Raises ScriptError. Effects: a container."""
    env = {"MUSTER_LAUNCHER": "horovodrun"}
    job = Job("horovod_sum.py", nproc=2, env=env, strategy="horovod")
    with cluster(name, setup.images, job) as running:
        return {"horovodrun": running.watch(FIRST_LINE)["exit"]}


def one_host(name: str, _: Setup) -> dict[str, float]:
    """Run a job of one rank without a container. Raises ScriptError. Effects: processes."""
    return {"local": processes.seconds_to_end(name, "collective.py")}


def _logged(name: str, setup: Setup, env: Mapping[str, str]) -> float:
    with cluster(name, setup.images, Job("lines.py", env=env)) as job:
        job.start()
        job.wait()
        return float(job.read(f"{FOLDER}/seconds"))


def lines(name: str, setup: Setup) -> dict[str, float]:
    """Print many lines into a container's log. Raises ScriptError. Effects: a container."""
    return {"lines": _logged(name, setup, {"BENCH_LINES": str(setup.lines)})}


def lines_after_error(name: str, setup: Setup) -> dict[str, float]:
    """Print lines after one that looks like an error. Raises ScriptError. Effects: a container."""
    env = {"BENCH_LINES": str(setup.after), "BENCH_FIRST": WARNING}
    return {"lines_after_error": _logged(name, setup, env)}


def lines_pipe(name: str, setup: Setup) -> dict[str, float]:
    """Print many lines into a pipe, without a container. Raises ScriptError. Effects: processes."""
    return {
        "lines_pipe": processes.seconds_of_writer(name, {"BENCH_LINES": str(setup.lines)}),
    }


def sizes(found: list[dict[str, Any]], suffix: str) -> dict[str, float]:
    """Return the figures of memory.py's answer, in MB. Pure.

    The first process is the harness; a rank's shim is known by its command. The largest shim counts.
    """
    # torchrun's own command holds the shim's as well, but far behind.
    shims = [one for one in found[1:] if "muster.launch.shim" in one["words"][:4]]
    figures = {
        f"harness{suffix}": found[0]["rss"] / MB,
        f"harness_pss{suffix}": found[0]["pss"] / MB,
    }
    if shims:
        figures[f"rank{suffix}"] = max(one["private"] for one in shims) / MB
    return figures


def memory(name: str, setup: Setup) -> dict[str, float]:
    """Look at a container's PID 1 and at the shims while ranks wait. Raises ScriptError. Effects: a container."""
    with cluster(name, setup.images, Job("wait.py", nproc=RANKS)) as job:
        job.start()
        answer = job.run_inside("python", f"{CODE}/memory.py", FOLDER, str(RANKS), "1")
        job.wait()
    return sizes(json.loads(answer), "")


def memory_local(name: str, _: Setup) -> dict[str, float]:
    """Look at the same without a container. Raises ScriptError. Effects: processes."""
    return sizes(processes.processes_of(name, RANKS), "_local")


def failures_told(name: str, setup: Setup) -> dict[str, float]:
    """Let something happen to one of two hosts. Raises ScriptError. Effects: containers."""
    faults = {"rank_raises": failures.rank_raises, "host_killed": failures.host_is_killed}
    return {
        key: failures.seconds_to_end(name, setup.images, fault) for key, fault in faults.items()
    }


def code_arrives(name: str, setup: Setup) -> dict[str, float]:
    """Fetch an archive from S3 and unpack it. Raises ScriptError. Effects: processes, files."""
    return code.seconds(name, setup.archive)


def channel(_: str, setup: Setup) -> dict[str, float]:
    """Call the roll of many simulated hosts, and hold their channel. Raises ScriptError. Effects: processes."""
    small = processes.roll_call(SMALL, 0)
    large = processes.roll_call(setup.hosts, setup.idle)
    return {
        "rollcall_small": small["seconds"],
        "rollcall": large["seconds"],
        "idle_memory": large["memory"],
        "idle_share": large["share"],
    }


def _memory_titles(suffix: str, where: str) -> dict[str, str]:
    return {
        f"harness{suffix}": f"Memory of the harness, {where}: resident",
        f"harness_pss{suffix}": f"Memory of the harness, {where}: shared pages divided (PSS)",
        f"rank{suffix}": f"Memory of each rank's shim, {where}: private",
    }


def table(setup: Setup) -> tuple[Part, ...]:
    """Return all parts, in the order in which they run. Pure."""
    writer = "time in the writer"
    job = {
        "job": "2 hosts in containers, start to the end of both",
        "first_line": "2 hosts in containers, start to the script's first line in the log",
    }
    looked = {"checks": "2 hosts in containers, with the checks; bare: muster without them"}
    local = {"local": "1 host, 1 rank, no container: start to end"}
    mpi = {"mpirun": "2 hosts under mpirun, a script without torch: start to the end of both"}
    horovod = {"horovodrun": "1 host, 2 ranks under horovodrun: start to end"}
    log = {"lines": f"{setup.lines:,} log lines: {writer}"}
    error = {"lines_after_error": f"{setup.after:,} log lines after one with ValueError: {writer}"}
    pipe = {"lines_pipe": f"{setup.lines:,} lines into a pipe, no container: {writer}"}
    told = {
        "rank_raises": "2 hosts, a rank raises while the other sleeps: until both have ended",
        "host_killed": "2 hosts, the second is killed: until the first has ended",
    }
    roll = {
        "rollcall_small": f"Roll call of {SMALL} simulated hosts",
        "rollcall": f"Roll call of {setup.hosts} simulated hosts",
        "idle_memory": f"Then {setup.idle:.0f} s of heartbeats: the leader's resident memory",
        "idle_share": f"Then {setup.idle:.0f} s of heartbeats: the leader's share of a core",
    }
    megabytes = f"{setup.archive / MB:.0f} MB"
    arrives = {
        "code": f"{megabytes} of code from S3 (a server here), fetched and unpacked; bare: `aws s3 cp` and tar",
        "code_server": f"{megabytes} from that server, read and thrown away",
    }
    units = {"idle_memory": "MB", "idle_share": "%"}
    held = _memory_titles("", "in a container")
    held_local = _memory_titles("_local", "no container")
    three, four = ("bare", "muster", "peer"), tuple(CONTENDERS)
    return (
        Part("job", three, job, "s", two_hosts, containers=True),
        Part("checks", three[:2], looked, "s", checks, containers=True),
        Part("local", three[:2], local, "s", one_host),
        Part("mpirun", ("muster",), mpi, "s", mpirun, containers=True),
        Part("horovodrun", three[:2], horovod, "s", horovodrun, containers=True),
        Part("lines", four, log, "s", lines, containers=True),
        Part("error", three, error, "s", lines_after_error, containers=True),
        Part("pipe", four[:3], pipe, "s", lines_pipe),
        Part("failure", three, told, "s", failures_told, containers=True, most=1),
        Part("code", three[:2], arrives, "s", code_arrives),
        Part("channel", ("muster",), roll, "s", channel, units=units),
        Part("memory", three[1:], held, "MB", memory, containers=True),
        Part("memory-local", ("muster",), held_local, "MB", memory_local),
    )


def run(
    part: Part, setup: Setup, absent: Iterable[str] = ()
) -> tuple[list[Measurement], dict[str, str]]:
    """Measure a part in interleaved rounds: one run of each contender, then the next round.

    Returns the measurements, and who could not be run and why: such a contender has no figures in this part.
    Effects: runs the jobs, says what it does.
    """
    names = [name for name in part.contenders if name not in set(absent)]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    failed: dict[str, str] = {}
    for number in range(min(setup.rounds, part.most)):
        for name in [name for name in names if name not in failed]:
            try:
                runs[name].append(part.measure(name, setup))
            except (ScriptError, OSError, ValueError) as error:
                failed[name] = str(error)
                say(f"bench: {part.name}: {name} could not be run: {error}")
                continue
            figures = ", ".join(f"{key} {value:.2f}" for key, value in runs[name][-1].items())
            say(
                f"bench: {part.name} {number + 1}/{min(setup.rounds, part.most)} {name}: {figures} {part.unit}"
            )
    good = {name: found for name, found in runs.items() if found and name not in failed}
    return [_measurement(part, key, good) for key in part.titles], failed


def _measurement(part: Part, key: str, runs: Mapping[str, list[dict[str, float]]]) -> Measurement:
    samples = {
        name: tuple(one[key] for one in found) for name, found in runs.items() if key in found[0]
    }
    return Measurement(key, part.titles[key], part.units.get(key, part.unit), samples)
