"""Jobs in containers: each host one container with SageMaker's files, on a network without a way out."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from tooling.machine import ScriptError, act, ask

JOBS = Path(__file__).parent / "jobs"
CODE = "/opt/ml/input/data/code"
FOLDER = "/tmp/muster-bench"  # noqa: S108  (inside the container)
PORT = 7777
DOCKER = ("docker",)
LIMIT_S = 300.0
PEER_MODULE = "SAGEMAKER_TRAINING_MODULE=sagemaker_pytorch_container.training:main"


@dataclass(frozen=True)
class Images:
    """The two images: muster's own, also for bare torchrun, and the one with AWS's toolkit."""

    muster: str
    peer: str

    def other(self, strategy: str) -> str:
        """Return another strategy's image of the same device, by its name: muster/horovod:cpu. Pure."""
        return self.muster.replace("/ddp:", f"/{strategy}:") if strategy else self.muster

    def all(self, *, peer: bool) -> tuple[str, ...]:
        """Return the images that take part."""
        return (self.muster, self.peer) if peer else (self.muster,)


@dataclass(frozen=True)
class Job:
    """What is run, for whichever contender."""

    script: str
    hosts: int = 1
    nproc: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    strategy: str = ""
    """Whose image it runs in; ddp's for none."""


def host_names(hosts: int) -> list[str]:
    """Return the hosts' names as SageMaker gives them. Pure."""
    return [f"algo-{number + 1}" for number in range(hosts)]


def words(name: str, images: Images, job: Job, index: int) -> list[str]:
    """Return what of `docker create` makes a contender of it: options, image, arguments. Pure."""
    script, image = f"{CODE}/{job.script}", images.other(job.strategy)
    if name == "bare" and job.strategy == "horovod":
        shape = ["-np", str(job.nproc), "--gloo", "--disable-cache"]
        return ["--entrypoint", "horovodrun", image, *shape, "python", "-u", script]
    if name == "python":
        return ["--entrypoint", "python", images.muster, "-u", script]  # as torchrun does
    if name == "bare":
        shape = [f"--nnodes={job.hosts}", f"--nproc-per-node={job.nproc}", f"--node-rank={index}"]
        meeting = ["--rdzv-backend=static", "--master-addr=algo-1", f"--master-port={PORT}"]
        return ["--entrypoint", "torchrun", images.muster, *shape, *meeting, script]
    if name == "muster":
        return [image, "train"]
    return ["--env", PEER_MODULE, images.peer, "train"]


def contract(job: Job, index: int) -> dict[str, dict[str, object]]:
    """Return SageMaker's files for one host, by name, as the SDK's torch_distributed has them. Pure."""
    hosts = host_names(job.hosts)
    group = {
        "instance_group_name": "homogeneousCluster",
        "instance_type": "ml.c5.xlarge",
        "hosts": hosts,
    }
    channel = {
        "TrainingInputMode": "File",
        "S3DistributionType": "FullyReplicated",
        "RecordWrapperType": "None",
    }
    return {
        "hyperparameters": {
            "sagemaker_program": job.script,
            "sagemaker_submit_directory": CODE,
            "sagemaker_torch_distributed_enabled": "true",
            "sagemaker_mpi_num_of_processes_per_host": str(job.nproc),
        },
        "resourceconfig": {
            "current_host": hosts[index],
            "current_instance_type": "ml.c5.xlarge",
            "current_group_name": "homogeneousCluster",
            "hosts": hosts,
            "instance_groups": [group],
            "network_interface_name": "eth0",
            "topology": None,
        },
        "inputdataconfig": {"code": channel},
    }


class Times(TypedDict):
    """What a watched job took, in seconds from its start."""

    exit: float
    first_line: float


class Cluster:
    """The containers of one job; `cluster` makes and removes them."""

    def __init__(self, name: str, images: Images, job: Job, folder: Path) -> None:
        self.name, self.images, self.job, self.folder = name, images, job, folder
        self.network = f"muster-bench-{uuid.uuid4().hex[:12]}"
        self.containers: list[str] = []

    def create(self) -> None:
        """Make the network and the containers. Raises ScriptError. Effects: those, files in the folder."""
        act("docker", "network", "create", "--internal", self.network, timeout=60, quiet=True)
        for index in range(self.job.hosts):
            self._create(index)

    def remove(self) -> None:
        """Remove what was made. Effects: containers, network."""
        for container in self.containers:
            ask("docker", "rm", "--force", "--volumes", container, timeout=60)
        ask("docker", "network", "rm", self.network, timeout=60)

    def _create(self, index: int) -> None:
        """Make one host's files, read-only for it, and its container."""
        host = host_names(self.job.hosts)[index]
        base = self.folder / host / "input"
        (base / "config").mkdir(parents=True)
        for file, value in contract(self.job, index).items():
            (base / "config" / f"{file}.json").write_text(json.dumps(value), encoding="utf-8")
        shutil.copytree(JOBS, base / "data" / "code")
        env = {"BENCH_FOLDER": FOLDER, "AWS_REGION": "us-east-1", "TRAINING_JOB_NAME": "bench"}
        options = [
            *("--name", f"{self.network}-{host}", "--network", self.network),
            *("--network-alias", host, "--volume", f"{base}:/opt/ml/input:ro"),
            *(
                part
                for key, value in {**env, **self.job.env}.items()
                for part in ("--env", f"{key}={value}")
            ),
        ]
        command = ("docker", "create", *options, *words(self.name, self.images, self.job, index))
        self.containers.append(f"{self.network}-{host}")
        act(*command, timeout=60, quiet=True)

    def watch(self, first: bytes) -> Times:
        """Start all hosts with their logs attached, and wait for the last one.

        `first_line` is when a line with `first` came out of the first host's log. Raises ScriptError when a host fails,
        takes too long, or never says it. Effects: runs the containers.
        """
        started = time.monotonic()
        hosts = [_Attached(container, first) for container in self.containers]
        for host in hosts:
            host.wait(started + LIMIT_S)
        ended = time.monotonic()
        if hosts[0].first is None:
            raise ScriptError(f"the job ended well, but its log lacks {first.decode()!r}")
        return {"exit": ended - started, "first_line": hosts[0].first - started}

    def start(self) -> None:
        """Start the hosts, their output into Docker's own log. Raises ScriptError. Effects: runs the containers."""
        act("docker", "start", *self.containers, timeout=60, quiet=True)

    def wait(self) -> None:
        """Wait for all hosts. Raises ScriptError when one fails or takes too long."""
        for container in self.containers:
            status = ask("docker", "wait", container, timeout=LIMIT_S)
            if status != "0":
                logs = ask("docker", "logs", "--tail", "15", container) or ""
                raise ScriptError(f"the job's status is {status or 'not known in time'}\n{logs}")

    def run_inside(self, *command: str) -> str:
        """Return what a command prints in the running first container. Raises ScriptError. Effects: runs it."""
        printed = ask("docker", "exec", self.containers[0], *command, timeout=90)
        if printed is None:
            logs = ask("docker", "logs", "--tail", "15", self.containers[0]) or ""
            raise ScriptError(f"{command[1]} fails beside the job\n{logs}")
        return printed

    def read(self, file: str) -> str:
        """Return a file's text out of the ended first container. Raises ScriptError where there is none."""
        target = self.folder / "copied"
        source = f"{self.containers[0]}:{file}"
        act("docker", "cp", source, str(target), timeout=60, quiet=True)
        return target.read_text(encoding="utf-8")


@contextmanager
def cluster(name: str, images: Images, job: Job) -> Iterator[Cluster]:
    """Make a job's containers, and leave nothing behind. Raises ScriptError. Effects: containers, a network, a folder."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        made = Cluster(name, images, job, Path(folder))
        try:
            made.create()
            yield made
        finally:
            made.remove()


class _Attached:
    """One started container; a thread reads its log, as anybody who watches would."""

    def __init__(self, container: str, marker: bytes) -> None:
        self.first: float | None = None
        self.tail: list[bytes] = []
        self._process = subprocess.Popen(
            [*DOCKER, "start", "--attach", container],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._reader = threading.Thread(target=self._read, args=(marker,))
        self._reader.start()

    def _read(self, marker: bytes) -> None:
        for line in self._process.stdout or ():
            if self.first is None and marker in line:
                self.first = time.monotonic()
            self.tail = [*self.tail[-14:], line]

    def wait(self, deadline: float) -> None:
        try:
            status = self._process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()  # the client; the container goes with its cluster
            raise ScriptError(f"the job took longer than {LIMIT_S:.0f} s") from None
        finally:
            self._process.wait()
            self._reader.join()
        if status != 0:
            logs = b"".join(self.tail).decode(errors="replace")
            raise ScriptError(f"the job's status is {status}\n{logs}")
