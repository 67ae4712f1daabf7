"""What the tests of several stages share."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from muster.model import HyperParameter, Job, Machine, Paths

TIMEOUT_S = 30


@dataclass(frozen=True)
class OptMl:
    """A folder that stands for /opt/ml."""

    base: Path

    def config(self, name: str, value: Any) -> Path:
        """Write input/config/NAME.json: bytes and text as they are, anything else as JSON."""
        raw = value if isinstance(value, (bytes, str)) else json.dumps(value)
        path = self.base / "input" / "config" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
        return path

    def file(self, relative: str, text: str, mode: int = 0o644) -> Path:
        """Write a file below the folder, or with ../ beside it."""
        path = Path(os.path.normpath(self.base / relative))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    @property
    def env(self) -> dict[str, str]:
        return {"SAGEMAKER_BASE_DIR": str(self.base)}

    @property
    def failure(self) -> str:
        return (self.base / "output" / "failure").read_text(encoding="utf-8")

    @property
    def record(self) -> dict[str, Any]:
        """The one record of the run."""
        (path,) = (self.base / "output" / "data" / "muster").glob("run-*.json")
        return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Give back the handlers that the command line takes first of all."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def opt_ml(tmp_path: Path) -> OptMl:
    """Return an empty folder that stands for /opt/ml."""
    base = tmp_path / "ml"
    base.mkdir()
    return OptMl(base)


@pytest.fixture(scope="session")
def clean_env() -> dict[str, str]:
    """Return this process's environment as a container has it before a job sets anything.

    The Python on PATH is this one, in which muster is installed, as in the images.
    """
    ours = ("MUSTER_", "SM_", "SAGEMAKER_", "TRAINING_JOB_", "PYTEST_", "CUDA_VISIBLE")
    launcher = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "PYTHONPATH"}
    env = {k: v for k, v in os.environ.items() if not k.startswith(ours) and k not in launcher}
    # A folder that this user may not search would turn "not found" into "not permitted".
    path = [folder for folder in env["PATH"].split(os.pathsep) if os.access(folder, os.X_OK)]
    return env | {"PATH": os.pathsep.join([os.path.dirname(sys.executable), *path])}


@pytest.fixture
def muster(
    clean_env: dict[str, str], tmp_path: Path
) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Return a function that runs the real command, in a folder of its own."""

    def run(*words: str, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-I", "-m", "muster", *words],
            env=clean_env | (env or {}),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def make_job() -> Callable[..., Job]:
    """Return a function that makes a job: one host, nothing special, but for what it is given."""

    def make(
        *, user: dict[str, HyperParameter] | None = None, gpus: int = 0, **changes: Any
    ) -> Job:
        hosts = changes.get("hosts", ("algo-1",))
        values: dict[str, Any] = {
            "name": "job",
            "paths": Paths("/opt/ml"),
            "current_host": hosts[0],
            "hosts": hosts,
            "instance_type": "ml.m5.large",
            "group": "homogeneousCluster",
            "groups": (),
            "interface": "eth0",
            "hyperparameters": tuple((user or {}).values()),
            "reserved": {},
            "channels": (),
            "program": "train.py",
            "program_source": "SAGEMAKER_PROGRAM",
            "program_args": (),
            "submit_directory": None,
            "submit_source": "hyperparameter sagemaker_submit_directory",
            "resource_config": {},
            "input_data_config": {},
            "machine": Machine(cpus=8, gpus=gpus, interfaces=("eth0", "lo")),
        }
        return Job(**(values | changes))

    return make


@pytest.fixture(scope="session")
def no_signals() -> Callable[[str], bool]:
    """Return a function that tells whether a mask of /proc/PID/status holds no signal.

    Signals 32 and 33 are the C library's own: a posix_spawn leaves them ignored. What these tests
    were started with, below nohup or a shell's `&`, is nobody's doing here.
    """
    # Python ignores these two itself, and undoes it in what it starts.
    own = sum(1 << (number - 1) for number in (signal.SIGPIPE, signal.SIGXFSZ))
    with open("/proc/self/status", encoding="utf-8") as status:
        ignored = next(int(line.split()[1], 16) for line in status if line.startswith("SigIgn:"))
    return lambda mask: int(mask, 16) & ~(0b11 << 31) & ~(ignored & ~own) == 0
