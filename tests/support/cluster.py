"""A job of several containers, started as SageMaker would start them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from engine import IMAGE, docker


@dataclass
class Host:
    """One container of a job and its part of /opt/ml on this machine."""

    name: str
    folder: Path
    container: str = ""

    @property
    def failure(self) -> str:
        path = self.folder / "output" / "failure"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def record(self) -> dict[str, Any]:
        path = self.folder / "output" / "data" / "muster" / f"run-{self.name}.json"
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return record

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def output(self) -> str:
        done = docker("logs", self.container)
        return done.stdout + done.stderr

    @property
    def pid(self) -> int:
        """Its harness, as this machine numbers it."""
        return int(docker("inspect", "--format", "{{.State.Pid}}", self.container).stdout)

    @property
    def ended_at(self) -> float:
        """When the container ended, in seconds since the epoch."""
        text = docker("inspect", "--format", "{{.State.FinishedAt}}", self.container).stdout
        # The engine writes nanoseconds, of which Python reads six digits.
        return datetime.fromisoformat(text.strip()[:26] + "+00:00").timestamp()

    def wait_for_file(self, name: str, timeout: float = 60) -> Path:
        """Waits until the script has written `name` into the model folder."""
        deadline = time.monotonic() + timeout
        while not (self.model / name).exists():
            assert time.monotonic() < deadline, f"no {name}: {self.output}"
            time.sleep(0.02)
        return self.model / name

    def rewrite(self, file: str, **changes: Any) -> None:
        """Changes values in a file of input/config."""
        path = self.folder / "input" / "config" / f"{file}.json"
        whole = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(whole | changes), encoding="utf-8")

    def wait(self, timeout: float = 90) -> int:
        """The container's status. Fails when it has not ended in time."""
        return int(docker("wait", self.container, timeout=timeout).stdout)


@dataclass
class Job:
    """What the job of a test is made of. Leaves out what the platform leaves out."""

    folder: Path
    code: Path | None = None
    program: str | None = None
    hosts: int = 1
    names: Sequence[str] = ()
    """The hosts' names; algo-1 and so on when none are given."""
    image: str = IMAGE
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, Path] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = ("train",)
    options: Sequence[str] = ()


def begun_job(folder: Path, hosts: int, environment: Mapping[str, str]) -> Job:
    """A job whose script only says that it has begun."""
    code = folder / "code"
    code.mkdir()
    (code / "train.py").write_text('print("begun")\n', encoding="utf-8")
    return Job(folder, code, "train.py", hosts=hosts, environment=environment)


class Cluster:
    """The hosts of one job on an internal network. A context manager: leaves nothing behind.

    The hostnames are Docker's random ids, and only the network knows algo-1, algo-2 and so
    on, as on SageMaker.
    """

    def __init__(self, job: Job, subnet: str = "") -> None:
        """With a `subnet` the hosts' names are their addresses in it."""
        self.job = job
        self.subnet = subnet
        self.network = f"muster-test-{uuid.uuid4().hex[:12]}"
        names = [*job.names] or [f"algo-{i + 1}" for i in range(job.hosts)]
        self.hosts = [self._make_host(name, names) for name in names]

    def __enter__(self) -> Self:
        addresses = ["--subnet", self.subnet] if self.subnet else []
        docker("network", "create", "--internal", *addresses, self.network)
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts:
            if host.container:
                docker("rm", "-f", "-v", host.container, check=False)
        docker("network", "rm", self.network, check=False)

    def start(self, *hosts: Host) -> None:
        """Starts the given hosts, or all."""
        for host in hosts or self.hosts:
            name = ["--ip" if self.subnet else "--network-alias", host.name]
            words = ["run", "--detach", "--network", self.network, *name, *self._options(host)]
            host.container = docker(*words).stdout.strip()

    def start_with(self, host: Host, source: Path, target: str) -> None:
        """Starts one host with a file or folder of this machine copied into its container."""
        alias = ["--network", self.network, "--network-alias", host.name]
        host.container = docker("create", *alias, *self._options(host)).stdout.strip()
        docker("cp", str(source), f"{host.container}:{target}")
        docker("start", host.container)

    def start_on_two_networks(
        self, other: str = "bridge", interfaces: Sequence[str] = ("ethwe",)
    ) -> None:
        """Starts all hosts on another network as well, by default Docker's own, which then has the default route.

        Which of them is eth0 is Docker's choice. The contract names an interface that is not there, or the first host's
        the first of `interfaces`, the second one's the second.
        """
        for place, host in enumerate(self.hosts):
            named = interfaces[place % len(interfaces)]
            host.rewrite("resourceconfig", network_interface_name=named)
            words = ["create", "--network", other, *self._options(host)]
            host.container = docker(*words).stdout.strip()
            docker("network", "connect", "--alias", host.name, self.network, host.container)
            docker("start", host.container)

    def _options(self, host: Host) -> list[str]:
        """The words of `docker run` and `docker create` but for the network."""
        words: list[str] = []
        for name, value in self.job.environment.items():
            words += ["--env", f"{name}={value}"]
        for source, target in self._volumes(host):
            words += ["--volume", f"{source}:{target}"]
        return [*words, *self.job.options, self.job.image, *self.job.command]

    def run(self, timeout: float = 120) -> list[int]:
        """Starts all hosts and waits for their statuses."""
        self.start()
        deadline = time.monotonic() + timeout
        return [host.wait(max(1.0, deadline - time.monotonic())) for host in self.hosts]

    def _make_host(self, name: str, names: list[str]) -> Host:
        host = Host(name, self.job.folder / name)
        config = host.folder / "input" / "config"
        config.mkdir(parents=True)
        for part in ("input/data", "output/data", "model"):
            (host.folder / part).mkdir(parents=True)
        hyperparameters = dict(self.job.hyperparameters)
        if self.job.program:
            hyperparameters["sagemaker_program"] = self.job.program
        files: dict[str, dict[str, Any]] = {
            "hyperparameters": hyperparameters,
            "resourceconfig": {
                "current_host": name,
                "current_instance_type": "ml.c5.xlarge",
                "current_group_name": "homogeneousCluster",
                "hosts": sorted(names),
                "instance_groups": [
                    {
                        "instance_group_name": "homogeneousCluster",
                        "instance_type": "ml.c5.xlarge",
                        "hosts": sorted(names),
                    }
                ],
                "network_interface_name": "eth0",
                "topology": None,
            },
            "inputdataconfig": {
                channel: {
                    "TrainingInputMode": "File",
                    "S3DistributionType": "FullyReplicated",
                    "RecordWrapperType": "None",
                }
                for channel in self._channels()
            },
        }
        for file, value in files.items():
            (config / f"{file}.json").write_text(json.dumps(value), encoding="utf-8")
        return host

    def _channels(self) -> dict[str, Path]:
        code = {"code": self.job.code} if self.job.code else {}
        return {**self.job.channels, **code}

    def _volumes(self, host: Host) -> list[tuple[Path, str]]:
        return [
            (host.folder / "input", "/opt/ml/input"),
            (host.folder / "output", "/opt/ml/output"),
            (host.folder / "output" / "data", "/opt/ml/output/data"),
            (host.folder / "model", "/opt/ml/model"),
            *((path, f"/opt/ml/input/data/{name}") for name, path in self._channels().items()),
        ]
