"""The data that flows from one stage of the pipeline to the next.

    contract ─Job─► code ─Code─► plan ─Plan─► launch ─Outcome─► report

Frozen, built once, JSON-serialisable by `to_json`. Nothing here does anything, or imports a stage.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.errors import SIGNAL_BASE, Kind


def to_json(value: Any) -> str:
    """Any dataclass of this module as one JSON text. Pure."""
    return json.dumps(dataclasses.asdict(value), ensure_ascii=False, default=str)


def file_part(host: str) -> str:
    """A host's name as a part of a file's name: all hosts' files may end in one archive. Pure."""
    return re.sub(r"[^\w.-]", "_", host)


@dataclass(frozen=True)
class Paths:
    """The folders of the container contract below one base (contract.md 1.2)."""

    base: str

    def _below(self, *parts: str) -> str:
        return posixpath.join(self.base, *parts)

    @property
    def input(self) -> str:
        return self._below("input")

    @property
    def config(self) -> str:
        return self._below("input", "config")

    @property
    def data(self) -> str:
        return self._below("input", "data")

    @property
    def code(self) -> str:
        return self._below("code")

    @property
    def model(self) -> str:
        return self._below("model")

    @property
    def output(self) -> str:
        return self._below("output")

    @property
    def output_data(self) -> str:
        return self._below("output", "data")

    @property
    def intermediate(self) -> str:
        return self._below("output", "intermediate")

    @property
    def failure(self) -> str:
        return self._below("output", "failure")

    @property
    def checkpoints(self) -> str:
        return self._below("checkpoints")

    @property
    def record(self) -> str:
        """Where the harness keeps its own account of the run."""
        return self._below("output", "data", "muster")


@dataclass(frozen=True)
class HyperParameter:
    """One hyperparameter: the text as it was sent, and what it means.

    `text` is the original text, but for one level of quotes that a JSON string has lost. `value` is the decoded JSON, or `text` where it is not JSON.
    """

    key: str
    text: str
    value: Any
    sent: Any = None
    """The value in hyperparameters.json, for the mode that imitates AWS's toolkit."""


@dataclass(frozen=True)
class Channel:
    """One input channel. `path` is a folder, or a FIFO's stem in Pipe mode."""

    name: str
    path: str
    input_mode: str


@dataclass(frozen=True)
class Group:
    """One instance group of a heterogeneous cluster."""

    name: str
    instance_type: str
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class Machine:
    """What this host has. `interfaces` are the names in /sys/class/net."""

    cpus: int
    gpus: int
    interfaces: tuple[str, ...]
    shm: int = 0
    """Bytes of /dev/shm; 0 when that isn't known."""


@dataclass(frozen=True)
class Job:
    """The job as SageMaker describes it, seen from one host."""

    name: str
    paths: Paths
    current_host: str
    hosts: tuple[str, ...]
    """In natural order (algo-2 before algo-10), the same on every host. The first leads."""
    instance_type: str
    group: str
    groups: tuple[Group, ...]
    interface: str
    """The interface between the hosts, known to exist here; empty when none is known."""
    hyperparameters: tuple[HyperParameter, ...]
    """The user's own, sorted by key."""
    reserved: Mapping[str, str]
    """Hyperparameters meant for the container (sagemaker_program …), as text."""
    channels: tuple[Channel, ...]
    program: str | None
    """The entry point as the user named it."""
    program_source: str
    """Where the program's name came from, for messages."""
    program_args: tuple[str, ...]
    """Arguments given on the command line of `muster train`."""
    submit_directory: str | None
    """Where the code is said to be: a folder, an archive, or an address of one."""
    submit_source: str
    """Who said so, for messages."""
    resource_config: Mapping[str, Any]
    input_data_config: Mapping[str, Any]
    machine: Machine
    framework_params: Mapping[str, Any] = field(default_factory=dict)
    """Those of `reserved` that AWS's toolkit shows to the script, with their values."""
    region: str = ""
    """The AWS region; empty when none is known."""
    log_level: int = 20
    """As the logging module counts: 10 debug, 20 info, 30 warning, 40 error."""
    checkpoints: str = "/opt/ml/checkpoints"
    """The folder that SageMaker keeps in step with S3."""
    checkpoints_source: str = ""
    """What names that folder; empty where nothing does."""
    notes: tuple[str, ...] = ()
    """What was defaulted or found odd, one line each."""


@dataclass(frozen=True)
class Code:
    """The user's code on disk. `command` is the argv that starts the entry point."""

    directory: str
    entry: str
    command: tuple[str, ...]
    is_python: bool = True
    """Whether Python runs it: a launcher starts many of it, while a shell script starts ranks itself."""
    notes: tuple[str, ...] = ()
    """What was found odd, one line each."""


@dataclass(frozen=True)
class Plan:
    """What this host will run. Nothing in it has been done yet."""

    launcher: str
    host: str
    hosts: tuple[str, ...]
    node_rank: int
    nproc: int
    world_size: int
    """Ranks in the job; for `plain`, one a host, each its own world."""
    master_addr: str
    master_port: int
    argv: tuple[str, ...]
    """The launcher's command. Never joined into a shell string. Empty where another host starts it."""
    cwd: str
    env: Mapping[str, str]
    """Variables added for the launcher."""
    rank_env: Mapping[str, str]
    """Variables that every rank on this host gets from the harness on top of `env`."""
    rank_argv: tuple[str, ...] = ()
    """What each rank here runs, where the launcher's command doesn't say."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Other names that the launcher has for hosts."""
    kept: tuple[str, ...] | None = None
    """The names of the container's environment that the launcher gets; None for all."""
    shared: bool = True
    """Whether the launcher makes one world of the hosts' ranks."""
    hostfile: str = ""
    """The text of a file for the script's own launcher; empty for none."""
    notes: tuple[str, ...] = ()

    @property
    def remote(self) -> bool:
        """Whether hosts start programs on one another."""
        return bool(self.rank_argv or self.hostfile)


@dataclass(frozen=True)
class ErrorRecord:
    """An uncaught exception, written down inside the rank's own Python."""

    type: str
    message: str
    traceback: str
    """The traceback's text, cut from the top."""
    time: float
    """Seconds since the epoch."""
    pid: int
    ppid: int

    @property
    def headline(self) -> str:
        """The exception as Python prints it: `ValueError: bad label 7`."""
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(frozen=True)
class RankEnd:
    """How one rank on this host ended."""

    rank: int
    local_rank: int
    pid: int
    code: int
    """Exit code when the rank exited, else -n for signal n (as subprocess reports it)."""
    time: float
    """When it ended, seconds since the epoch."""
    signalled: int = 0
    """The signal the harness had sent before the end; 0 when none."""
    signalled_time: float = 0.0
    killed: bool = False
    """Whether it had not ended in time, so that the harness killed it."""
    error: ErrorRecord | None = None
    stderr_tail: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """The rank's status as a shell would report it: 1 to 255, 128 + n for signal n."""
        return SIGNAL_BASE - self.code if self.code < 0 else self.code


@dataclass(frozen=True)
class Cause:
    """Why the job failed, ready to be told to a person."""

    headline: str
    kind: Kind
    status: int
    host: str
    rank: int | None = None
    detail: str = ""
    """Where it happened: the tail of the traceback or of stderr."""
    remedy: str = ""
    time: float = 0.0
    """When, in seconds since the epoch; 0 when that isn't known."""
    asked: bool = False
    """Whether it ended so because the harness had asked it to end."""
    echo: bool = False
    """Whether it speaks of a failure elsewhere: a lost connection, a launcher left alone."""


@dataclass(frozen=True)
class Outcome:
    """How the job ended on this host. `cause` is None when it succeeded."""

    status: int
    cause: Cause | None = None
    ranks: tuple[RankEnd, ...] = ()
    stop_signal: int = 0
    """The signal that asked the container to stop; 0 when none came."""
    xids: tuple[Mapping[str, Any], ...] = ()
    """What this host's GPUs have told while its ranks ran, as the record has it."""
