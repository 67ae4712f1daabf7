"""Jobs without a container: muster and torchrun of this Python's own venv."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tooling.bench.containers import JOBS
from tooling.machine import ScriptError

BIN = Path(sys.executable).parent
"""Not resolved: a venv's Python is a link."""
LIMIT_S = 300.0
DRAIN = ["cat"]
FOREIGN = ("SM_", "SAGEMAKER_", "MUSTER_", "TORCHELASTIC_", "BENCH_")


def free_port() -> int:
    """Return a port that nobody listens on. Effects: binds it for a moment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def command(name: str, script: str, nproc: int = 1) -> list[str]:
    """Return a contender's argv. Effects: looks for a free port."""
    path = str(JOBS / script)
    if name == "python":
        return [sys.executable, "-u", path]  # as torchrun does
    if name == "muster":
        return [str(BIN / "muster"), "train", path]
    shape = ["--nnodes=1", f"--nproc-per-node={nproc}", "--rdzv-backend=static"]
    meeting = ["--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    return [str(BIN / "torchrun"), *shape, *meeting, path]


def environment(base: Path, nproc: int, extra: Mapping[str, str]) -> dict[str, str]:
    """Return a job's variables: this process's own without those of another job. Effects: reads the environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return {
        **kept,
        "PATH": f"{BIN}:{kept.get('PATH', '')}",
        "SAGEMAKER_BASE_DIR": str(base / "ml"),
        "MUSTER_NPROC": str(nproc),
        "BENCH_FOLDER": str(base / "bench"),
        **extra,
    }


class Process:
    """One started job and its folder."""

    def __init__(self, argv: list[str], env: dict[str, str], log: Path, out: int) -> None:
        self.argv, self.log, self.folder = argv, log, Path(env["BENCH_FOLDER"])
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                argv,
                env=env,
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Wait for the end. Raises ScriptError when the job fails or takes too long."""
        try:
            status = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise ScriptError(f"{self.argv[0]} took longer than {LIMIT_S:.0f} s") from None
        if status != 0:
            tail = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
            raise ScriptError("\n".join([f"{self.argv[0]} ended with status {status}", *tail]))

    def end(self) -> None:
        """End it, if it still runs. Effects: a signal to this job alone."""
        if self.process.poll() is None:
            self.process.terminate()  # both muster and torchrun end their ranks
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextmanager
def running(
    name: str,
    script: str,
    nproc: int = 1,
    env: Mapping[str, str] | None = None,
    out: int = subprocess.DEVNULL,
) -> Iterator[Process]:
    """Start a contender on a script; what is left of it is ended. Effects: processes, a folder for a while."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        base = Path(folder)
        (base / "ml").mkdir()
        argv = command(name, script, nproc)
        job = Process(argv, environment(base, nproc, env or {}), base / "stderr", out)
        try:
            yield job
        finally:
            job.end()


def seconds_to_end(name: str, script: str) -> float:
    """Return the seconds from a job's start to its end. Raises ScriptError. Effects: runs it."""
    started = time.monotonic()
    with running(name, script) as job:
        job.wait()
        return time.monotonic() - started


def seconds_of_writer(name: str, env: Mapping[str, str]) -> float:
    """Return how long lines.py needed to print into a pipe that `cat` drains. Raises ScriptError. Effects: runs it."""
    read, write = os.pipe()
    drain = subprocess.Popen(DRAIN, stdin=read, stdout=subprocess.DEVNULL)
    os.close(read)
    try:
        with running(name, "lines.py", env=env, out=write) as job:
            job.wait()
            return float((job.folder / "seconds").read_text(encoding="utf-8"))
    finally:
        os.close(write)
        drain.wait()


def processes_of(name: str, ranks: int) -> list[dict[str, object]]:
    """Return the memory of a job's processes while its ranks wait: see jobs/memory.py. Raises ScriptError."""
    with running(name, "wait.py", nproc=ranks) as job:
        argv = (sys.executable, str(JOBS / "memory.py"), str(job.folder), str(ranks))
        done = subprocess.run(
            (*argv, str(job.process.pid)), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise ScriptError(f"memory.py fails beside {name}: {done.stderr.strip()[-500:]}")
        job.wait()
        found: list[dict[str, object]] = json.loads(done.stdout)
        return found


def roll_call(hosts: int, idle: float) -> dict[str, float]:
    """Return what jobs/rollcall.py prints of so many simulated hosts. Raises ScriptError. Effects: two processes."""
    script, port = str(JOBS / "rollcall.py"), str(free_port())
    leading = [sys.executable, script, "leader", port, str(hosts), str(idle)]
    calling = [sys.executable, script, "members", port, str(hosts)]
    with subprocess.Popen(leading, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as leader:
        try:
            for _ in leader.stdout or ():
                break  # It listens now.
            done = subprocess.run(
                calling, capture_output=True, text=True, timeout=LIMIT_S + idle, check=False
            )
            said, errors = leader.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise ScriptError(f"{hosts} hosts took longer than {LIMIT_S:.0f} s") from None
        finally:
            leader.kill()
    if leader.returncode != 0 or not done.stdout:
        raise ScriptError(f"{hosts} hosts did not meet: {(errors.decode() + done.stderr)[-500:]}")
    found: dict[str, float] = json.loads(said.splitlines()[-1])
    return {**found, **json.loads(done.stdout.splitlines()[-1])}
