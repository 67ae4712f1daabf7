"""What must work on a machine with a GPU, in an image or beside it, in under five minutes. Needs no package but torch.

    python smoke.py --data FOLDER            # where muster and torch are installed, with or without Docker
    python smoke.py --data FOLDER --cpu      # a rehearsal without a GPU: gloo takes NCCL's place

`scripts/smoke` calls it in an image. Each part prints one line; the status is 0 only when all parts passed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
JOBS = HERE / "jobs"
HOSTS = {"algo-1": "127.5.0.1", "algo-2": "127.5.0.2"}
PART_S = 120.0
NO_GPU = 2
Facts = dict[str, Any]


class Failed(Exception):  # noqa: N818  (a verdict, not a defect)
    """A part did not do what it has to; the message says what was seen."""


class LeftOut(Exception):  # noqa: N818  (the same)
    """A part that a rehearsal can't do here; the message says why."""


def expect(truth: object, message: str) -> None:
    """Raise Failed unless `truth`."""
    if not truth:
        raise Failed(message)


class Host:
    """`muster train` on one host of a job, with a folder of its own for /opt/ml."""

    def __init__(self, folder: Path, words: tuple[str, ...], env: Mapping[str, str]) -> None:
        self.base = folder
        self.log = folder / "log.txt"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["muster", "train", *words],
                env={**os.environ, "SAGEMAKER_BASE_DIR": str(folder), **env},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self) -> int:
        """Its status as a shell sees it. Raises Failed when it takes too long."""
        try:
            code = self.process.wait(PART_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"not over after {PART_S:.0f} s\n{self.tail}") from None
        return 128 - code if code < 0 else code

    @property
    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def tail(self) -> str:
        return "\n".join(self.text.splitlines()[-15:])

    @property
    def failure(self) -> str:
        path = self.base / "output" / "failure"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def said(self) -> Facts:
        """What the job's `smoke:` line holds. Raises Failed."""
        found = re.search(r"^smoke: (.+)$", self.text, re.MULTILINE)
        expect(found, f"no line of figures\n{self.tail}")
        assert found
        facts: Facts = json.loads(found[1])
        return facts


@contextmanager
def job(*words: str, hosts: int = 1, **env: str) -> Iterator[list[Host]]:
    """The hosts of a job, started; whatever is left of them is ended."""
    names = list(HOSTS)[:hosts]
    shared = {"MUSTER_ADDRESSES": ",".join(f"{name}={HOSTS[name]}" for name in names)}
    started: list[Host] = []
    with tempfile.TemporaryDirectory(prefix="muster-smoke-") as scratch:
        try:
            for name in names:
                folder = Path(scratch, name)
                for part in ("input/config", "model", "output/data"):
                    (folder / part).mkdir(parents=True)
                resources = json.dumps({"current_host": name, "hosts": names})
                (folder / "input/config/resourceconfig.json").write_text(
                    resources, encoding="utf-8"
                )
                started.append(Host(folder, words, shared | env))
            yield started
        finally:
            for host in started:
                if host.process.poll() is None:
                    os.killpg(host.process.pid, signal.SIGKILL)
                host.process.wait()


def succeed(hosts: list[Host]) -> None:
    """Wait for all hosts. Raises Failed unless all end with 0."""
    for host in hosts:
        status = host.wait()
        expect(status == 0, f"status {status}: {host.failure}\n{host.tail}")


def versions(options: argparse.Namespace) -> Facts:
    """Torch sees the GPUs, was built for them, and the one NCCL in the process is torch's own."""
    command = ["python", str(JOBS / "versions.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PART_S, check=False)
    expect(done.returncode == 0, done.stderr[-2000:])
    facts: Facts = json.loads(done.stdout)
    if not options.cpu:
        expect(facts["gpus"], "torch sees no GPU")
        expect(facts["sum"] == 1000.0, "a sum on the GPU is wrong")
        major = {arch.removeprefix("sm_")[:-1] for arch in facts["architectures"]}
        for capability in facts["capabilities"]:
            expect(capability.split(".")[0] in major, f"torch has no code for {capability}")
        paths = facts["nccl_paths"]
        expect(len(paths) == 1 and "/nvidia/nccl/" in paths[0], f"NCCL in the process: {paths}")
    return facts


def digits(options: argparse.Namespace) -> Facts:
    """The example learns under torchrun, with a rank for each GPU."""
    env = {"MUSTER_LAUNCHER": "torchrun", "SM_CHANNEL_TRAINING": str(options.data)}
    ranks = {"MUSTER_NPROC": "2", "OMP_NUM_THREADS": "1"} if options.cpu else {}
    words = (str(options.examples / "digits_ddp.py"), "--data", str(options.data))
    begin = time.monotonic()
    with job(*words, **env, **ranks) as hosts:
        succeed(hosts)
        found = re.search(r"^test_accuracy=([0-9.]+)$", hosts[0].text, re.MULTILINE)
        expect(found and float(found[1]) > 0.9, f"accuracy: {found}\n{hosts[0].tail}")
        assert found
        told = re.search(r"processes=(\d+) device=(\w+)", hosts[0].text)
        expect(told, hosts[0].tail)
        assert told
    expect(told[2] == ("cpu" if options.cpu else "cuda"), f"trained on {told[2]}")
    seconds = time.monotonic() - begin
    return {"accuracy": float(found[1]), "processes": int(told[1]), "seconds": seconds}


def two_hosts(options: argparse.Namespace) -> Facts:
    """Two hosts that share one GPU sum over the network, as hosts do."""
    env = {"MUSTER_NPROC": "1", "CUDA_VISIBLE_DEVICES": "0", "NCCL_SOCKET_IFNAME": "lo"}
    # Else NCCL's own log could be wanted for the reason: it is the only witness on a machine that one can't reach.
    env |= {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "1"}
    with job(str(JOBS / "collective.py"), hosts=2, **env) as hosts:
        succeed(hosts)
        facts = hosts[0].said()
    expect(facts["world"] == len(HOSTS), f"{facts['world']} ranks")
    expect(facts["backend"] == ("gloo" if options.cpu else "nccl"), facts["backend"])
    return facts


def benchmark(options: argparse.Namespace) -> Facts:
    """The benchmark's tables: copies on the device, and sums of two ranks that share it, over the network."""
    env = {"MUSTER_NPROC": "1", "CUDA_VISIBLE_DEVICES": "0", "NCCL_SOCKET_IFNAME": "lo"}
    env |= {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "1"}
    sizes = ("-b", "1M", "-e", "4M" if options.cpu else "256M", "-f", "4", "-n", "10", "-g", "1")
    facts: Facts = {}
    for name, program, hosts in (
        ("copy", "sendrecv_perf", 1),
        ("one", "all_reduce_perf", 1),
        ("two", str(JOBS / "benchmark.py"), 2),
    ):
        with job(program, *sizes, hosts=hosts, **env) as started:
            succeed(started)
            facts[name] = algbw(started[0])
            told = re.search(r" backend=(\w+) ", started[0].text)
            wanted = "gloo" if options.cpu else "nccl"
            expect(told and told[1] == wanted, f"measured over {told and told[1]}")
    return facts


def algbw(host: Host) -> dict[str, float]:
    """What the table says for each size, out of place, in GB/s. Raises Failed."""
    rows = [line.split() for line in host.text.splitlines()]
    rows = [row for row in rows if len(row) == 13 and row[0].isdecimal()]
    expect(rows and all(row[8] == "0" for row in rows), f"wrong values\n{host.tail}")
    return {row[0]: float(row[6]) for row in rows}


def compiled(options: argparse.Namespace) -> Facts:
    """torch.compile makes code for the device, and its gradients are those without it."""
    if options.cpu and not shutil.which("g++"):
        raise LeftOut("torch.compile on the processor needs g++, which a GPU image doesn't have")
    with job(str(JOBS / "compiled.py"), MUSTER_LAUNCHER="plain", OMP_NUM_THREADS="1") as hosts:
        succeed(hosts)
        facts = hosts[0].said()
    expect(facts["device"] == ("cpu" if options.cpu else "cuda"), facts["device"])
    return facts


def statuses(options: argparse.Namespace) -> Facts:
    """Each way to end has its status and its reason, also with a GPU in use."""
    wanted = {
        "raise": (1, "ValueError: bad label 7"),
        "exit": (7, "the script ended with status 7"),
    }
    if not options.cpu:
        wanted["memory"] = (1, "CUDA out of memory")
    found: Facts = {}
    for how, (status, reason) in wanted.items():
        with job(str(JOBS / "fail.py"), how, MUSTER_LAUNCHER="plain") as hosts:
            found[how] = hosts[0].wait()
            expect(found[how] == status, f"{how}: status {found[how]}\n{hosts[0].tail}")
            first = hosts[0].failure.partition("\n")[0]
            expect(reason in first, f"{how}: {hosts[0].failure!r}")
    with job(str(JOBS / "fail.py"), "stop", MUSTER_LAUNCHER="plain") as hosts:
        deadline = time.monotonic() + PART_S
        while not (hosts[0].base / "model/started").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        hosts[0].process.send_signal(signal.SIGTERM)
        found["stop"] = hosts[0].wait()
        expect(found["stop"] == 0, f"stop: status {found['stop']}\n{hosts[0].tail}")
        expect((hosts[0].base / "model/saved").exists(), "stop: nothing was saved")
    return found


PARTS: tuple[Callable[[argparse.Namespace], Facts], ...] = (
    versions,
    digits,
    two_hosts,
    benchmark,
    compiled,
    statuses,
)


def has_gpu() -> bool:
    """Whether the driver's file is here."""
    return Path("/dev/nvidiactl").exists()


def run(options: argparse.Namespace) -> Facts:
    """Runs the parts, one after the other. Effects: prints a line a part."""
    results: Facts = {}
    for part in PARTS:
        if options.only and part.__name__ not in options.only:
            continue
        begin = time.monotonic()
        try:
            facts, error = part(options), ""
        except LeftOut as why:
            print(f"left out {part.__name__}: {why}", flush=True)
            continue
        except (Failed, subprocess.SubprocessError, OSError, ValueError) as failure:
            facts, error = {}, str(failure)
        seconds = round(time.monotonic() - begin, 1)
        results[part.__name__] = {"passed": not error, "seconds": seconds, **facts}
        told = error or json.dumps(facts)
        print(
            f"{'passed' if not error else 'FAILED'} {part.__name__} {seconds} s {told}", flush=True
        )
    return results


def main(argv: list[str] | None = None) -> int:
    """0: all parts passed; 1: one has not; 2: there is no GPU, or no muster."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder with digits.npz")
    parser.add_argument("--examples", type=Path, default=HERE / "../../examples")
    parser.add_argument("--cpu", action="store_true", help="rehearse on a machine without a GPU")
    parser.add_argument("--out", type=Path, help="write the results into this file, as JSON")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="PART",
        choices=[part.__name__ for part in PARTS],
        help="these parts alone: %(choices)s",
    )
    options = parser.parse_args(argv)
    if not options.cpu and not has_gpu():
        print("smoke: no GPU here; --cpu rehearses without one", file=sys.stderr)
        return NO_GPU
    if not shutil.which("muster"):
        print(
            "smoke: no muster on PATH: `make venv`, then PATH=$PWD/.venv/bin:$PATH", file=sys.stderr
        )
        return NO_GPU
    if options.cpu:
        # A GPU that is there would be used all the same, by torch and by the harness.
        os.environ.update({"CUDA_VISIBLE_DEVICES": "", "MUSTER_ALLOW_CPU": "1"})
    results = run(options)
    if options.out:
        options.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    passed = sum(one["passed"] for one in results.values())
    how = "rehearsed without a GPU" if options.cpu else "on the GPU"
    print(f"smoke: {passed} of {len(results)} parts passed, {how}", flush=True)
    return 0 if passed == len(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
