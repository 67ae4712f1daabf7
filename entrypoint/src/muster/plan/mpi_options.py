"""The options that a user adds to mpirun, read word by word. Pure.

mpirun takes the first word that is no option for the program to run: an option that is read
wrongly would run something else, and end with 0. So only options that are known are taken.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from muster.errors import PlanError
from muster.model import Job
from muster.settings import Settings

_OPTIONS_BY_SDK = (
    "sagemaker_mpi_custom_mpi_options",
    "sagemaker_distributed_dataparallel_custom_mpi_options",
)
"""Where the SDK sends them."""
_MCA = ("mca", "gmca", "prtemca", "pmixmca", "gpmixmca")
"""Options with a key and a value."""
_WITH_VALUE = frozenset(
    [
        "map-by",
        "rank-by",
        "bind-to",
        "timeout",
        "output-filename",
        "output",
        "display",
        "tune",
        "report-state-on-timeout",
        "cpus-per-rank",
        "runtime-options",
        "stream-buffering",
        "xterm",
    ]
)
_FLAGS = frozenset(
    [
        "v",
        "verbose",
        "q",
        "quiet",
        "tag-output",
        "timestamp-output",
        "merge-stderr-to-stdout",
        "display-map",
        "display-topo",
        "display-allocation",
        "report-bindings",
        "show-progress",
        "oversubscribe",
        "nooversubscribe",
        "get-stack-traces",
        "allow-run-as-root",
    ]
)
_WHERE = "muster names the hosts and the ranks itself"
_REFUSED = {
    name: why
    for names, why in (
        ("hostfile machinefile default-hostfile host H rankfile rf nolocal", _WHERE),
        ("np n c N npernode pernode npersocket ppr", _WHERE),
        ("h help V version do-not-launch", "nothing would be trained"),
        ("enable-recovery continuous", "a job that has lost a rank ends"),
        ("wdir wd path prefix noprefix app preload-files", "each host knows its own"),
    )
    for name in names.split()
}
_OURS = {
    "plm_rsh_agent": "muster starts the other hosts itself, without ssh",
    "plm_ssh_agent": "muster starts the other hosts itself, without ssh",
    "plm": "muster starts the other hosts itself, without ssh",
    "orte_abort_on_non_zero_status": "a job that has lost a rank ends",
}


@dataclass(frozen=True)
class MpiOptions:
    """What the user adds."""

    words: tuple[str, ...] = ()
    """Options that go to mpirun as they are; those with a key are in `parameters`."""
    parameters: tuple[tuple[str, str, str], ...] = ()
    """(option without dashes, key, value) of each MCA parameter."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables for all ranks. They go through the harness and are on no command line."""

    def sets(self, *keys: str) -> bool:
        """Whether the user sets one of these MCA parameters, or options without dashes."""
        named = {key for _, key, _ in self.parameters}
        named |= {word.lstrip("-") for word in self.words if word.startswith("-")}
        return bool(named & set(keys))


def asked_options(job: Job, settings: Settings, inherited: Mapping[str, str]) -> MpiOptions:
    """What the user adds to mpirun. Raises PlanError where it can't be taken."""
    text, source = options_text(job, settings)
    return read_options(text, source, inherited) if text else MpiOptions()


def options_text(job: Job, settings: Settings) -> tuple[str, str]:
    """What the user adds to mpirun, and where: MUSTER_MPI_OPTIONS, else what the SDK has sent."""
    if settings.mpi_options is not None:
        return settings.mpi_options, "MUSTER_MPI_OPTIONS"
    return next(
        ((job.reserved[key], key) for key in _OPTIONS_BY_SDK if job.reserved.get(key)), ("", "")
    )


def read_options(text: str, source: str, inherited: Mapping[str, str]) -> MpiOptions:
    """The options in `text`, which follows a shell's rules for words.

    Args:
        text: as the user wrote it; may be a JSON string with its quotes taken away.
        source: where it came from, for messages.
        inherited: the container's environment, for `-x NAME`.

    Raises:
        PlanError: it can't be read, or has an option that can't be taken; the message names it.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise PlanError(f"{source}={text!r} can't be read: {error}") from error
    reader = _Reader(words, source, inherited)
    while reader.rest:
        reader.read_one()
    return MpiOptions(tuple(reader.words), tuple(reader.parameters), reader.variables)


class _Reader:
    def __init__(self, words: Sequence[str], source: str, inherited: Mapping[str, str]) -> None:
        self.rest = list(words)
        self.words: list[str] = []
        self.parameters: list[tuple[str, str, str]] = []
        self.variables: dict[str, str] = {}
        self._source = source
        self._inherited = inherited

    def read_one(self) -> None:
        word = self.rest.pop(0)
        name = word.lstrip("-")
        if not word.startswith("-") or not name:
            raise self._error(word, "it is no option, and mpirun would run it as the program")
        name, equals, value = name.partition("=")
        if name in _REFUSED:
            raise self._error(word, _REFUSED[name])
        if name == "NCCL_DEBUG":  # As the SDK's own examples write it (contract.md 2).
            self.variables["NCCL_DEBUG"] = value if equals else self._value(word)
        elif name == "x":
            self._export(value if equals else self._value(word))
        elif name in _MCA:
            self._parameter(name, word)
        elif name in _FLAGS and not equals:
            self.words.append(word)
        elif name in _WITH_VALUE:
            self.words += [word] if equals else [word, self._value(word)]
        else:
            raise self._error(word, "muster does not know it")

    def _export(self, text: str) -> None:
        name, equals, value = text.partition("=")
        if name.startswith("SM_"):
            raise self._error(f"-x {name}", "each host has its own SM_ variables")
        if equals:
            self.variables[name] = value
        elif name in self._inherited:
            # Every host has the job's variables; only what the leader alone has would differ.
            self.variables[name] = self._inherited[name]

    def _parameter(self, option: str, word: str) -> None:
        key, value = self._value(word), self._value(word)
        if key in _OURS and not (key == "orte_abort_on_non_zero_status" and value == "1"):
            raise self._error(f"{word} {key} {value}", _OURS[key])
        self.parameters.append((option, key, value))

    def _value(self, word: str) -> str:
        if not self.rest:
            raise self._error(word, "its value is missing")
        return self.rest.pop(0)

    def _error(self, word: str, why: str) -> PlanError:
        return PlanError(f"{self._source} has {word}, which can't be taken: {why}")
