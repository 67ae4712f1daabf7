"""The contract's files and variables together, as one Job. Effects: reads files."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from muster.contract import checkpoints, files, hyperparameters, resources
from muster.contract.exportable import refuse_unexportable
from muster.contract.machine import interface_towards, look_at_machine
from muster.contract.precedence import Choice, choose
from muster.contract.program import Program, find_program, find_submit_directory
from muster.errors import ContractError
from muster.model import Channel, Job, Machine, Paths
from muster.settings import Settings, misspelt

_NAMELESS = "local"
_INFO = 20
_DIGITS = 10


def read_contract(
    settings: Settings, env: Mapping[str, str], command_line: Sequence[str] = ()
) -> Job:
    """The job of this host.

    Args:
        settings: the harness's settings.
        env: the container's environment.
        command_line: what follows `muster train`: a script and its arguments, or nothing.

    Raises:
        ContractError: a file can't be understood; the message names it.
    """
    paths = Paths(settings.base_dir.rstrip("/") or "/")
    sent = _read_files(paths)
    split = hyperparameters.split(sent.hyperparameters)
    here = _look_around(sent.resources, settings, env)
    asked = _read_asked(settings, paths, split.reserved, command_line)
    notes = (*misspelt(env), *here.remarks, *asked.remarks)
    return _make_job(paths, sent, split, here, asked, notes)


class _Sent(NamedTuple):
    """The files of /opt/ml/input/config."""

    hyperparameters: dict[str, Any]
    resources: dict[str, Any]
    channels: dict[str, Any]


class _Here(NamedTuple):
    """This host among the others."""

    cluster: resources.Resources
    machine: Machine
    interface: str
    remarks: tuple[str, ...]


class _Asked(NamedTuple):
    """What several places may set, and who has won."""

    program: Program
    submit_directory: Choice[str]
    folder: Choice[str]
    name: str
    region: str
    log_level: int
    remarks: tuple[str, ...]


def _look_around(
    resource_config: Mapping[str, Any], settings: Settings, env: Mapping[str, str]
) -> _Here:
    cluster = resources.read_resources(resource_config, fallback_host=socket.gethostname())
    machine = look_at_machine(env)
    interface, other = resources.choose_interface(
        resource_config, machine.interfaces, lambda: _interface_between(cluster, settings)
    )
    return _Here(cluster, machine, interface, _said(cluster.note, other))


def _read_asked(
    settings: Settings, paths: Paths, reserved: Mapping[str, str], command_line: Sequence[str]
) -> _Asked:
    program = find_program(settings, reserved, command_line)
    submit_directory = find_submit_directory(settings, reserved)
    folder = checkpoints.find_folder(settings, paths)
    level, about_level = _log_level(settings, reserved)
    name = _name(settings, reserved)
    region = reserved.get("sagemaker_region") or settings.region or ""
    remarks = _said(
        *(program.conflict, submit_directory.conflict, name.conflict),
        *(about_level, folder.conflict),
    )
    named = name.value or _NAMELESS
    return _Asked(program, submit_directory, folder, named, region, level, remarks)


def _said(*remarks: str | None) -> tuple[str, ...]:
    return tuple(filter(None, remarks))


def _make_job(
    paths: Paths,
    sent: _Sent,
    split: hyperparameters.Split,
    here: _Here,
    asked: _Asked,
    notes: tuple[str, ...],
) -> Job:
    return Job(
        name=asked.name,
        paths=paths,
        current_host=here.cluster.current_host,
        hosts=here.cluster.hosts,
        instance_type=here.cluster.instance_type,
        group=here.cluster.group,
        groups=here.cluster.groups,
        interface=here.interface,
        hyperparameters=split.user,
        reserved=split.reserved,
        channels=_channels(sent.channels, paths),
        program=asked.program.name,
        program_source=asked.program.source,
        program_args=asked.program.arguments,
        submit_directory=asked.submit_directory.value,
        submit_source=asked.submit_directory.source,
        resource_config=sent.resources,
        input_data_config=sent.channels,
        machine=here.machine,
        framework_params=split.framework,
        region=asked.region,
        log_level=asked.log_level,
        checkpoints=asked.folder.value or paths.checkpoints,
        checkpoints_source=asked.folder.source if asked.folder.value else "",
        notes=notes,
    )


class Place(NamedTuple):
    """Where this host belongs."""

    job: str
    host: str
    hosts: tuple[str, ...]


def read_place(settings: Settings) -> Place | None:
    """The job's name, this host and all hosts, where that much of the contract can be read.

    A host whose list lacks the others knows at least who leads them.
    """
    paths = Paths(settings.base_dir.rstrip("/") or "/")
    try:
        config = files.read_object(paths.config, "resourceconfig.json")
        alone = config.get("hosts")
        if (
            isinstance(alone, list)
            and alone
            and resources.is_lonely_follower([str(host) for host in alone])
        ):
            host = str(alone[0])
            return Place(_name_at_least(settings, paths), host, ("algo-1", host))
        cluster = resources.read_resources(config, fallback_host=socket.gethostname())
    except ContractError:
        return None
    return Place(_name_at_least(settings, paths), cluster.current_host, cluster.hosts)


def _name_at_least(settings: Settings, paths: Paths) -> str:
    try:
        sent = files.read_object(paths.config, "hyperparameters.json")
        reserved = hyperparameters.split(sent).reserved
    except ContractError:
        reserved = {}
    return _name(settings, reserved).value or _NAMELESS


def _read_files(paths: Paths) -> _Sent:
    """A bare `docker run` has none, but may have folders."""
    names = ("hyperparameters.json", "resourceconfig.json", "inputdataconfig.json")
    sent, resource_config, input_data = (files.read_object(paths.config, name) for name in names)
    if not input_data and not resource_config:
        input_data = files.list_folders(paths.data)
    return _Sent(sent, resource_config, input_data)


def _interface_between(cluster: resources.Resources, settings: Settings) -> str:
    """The interface towards the other hosts, told by this host's own name or another's."""
    own = cluster.current_host
    # The leader on all hosts but one.
    other = next((host for host in cluster.hosts if host != own), "")
    return interface_towards(*(settings.addresses.get(host, host) for host in (own, other)))


def _name(settings: Settings, reserved: Mapping[str, str]) -> Choice[str]:
    chosen = choose(
        "job name",
        (settings.job_name, "TRAINING_JOB_NAME"),
        (reserved.get("sagemaker_job_name"), "hyperparameter sagemaker_job_name"),
    )
    # Each job of a tuning job has a name of its own, and the tuning job's among its settings.
    tuning = "_tuning_objective_metric" in reserved
    return chosen._replace(conflict=None) if tuning else chosen


def _log_level(settings: Settings, reserved: Mapping[str, str]) -> tuple[int, str | None]:
    """The level as a number, and a note on a conflict, or on what is no level. Names count too."""
    sent = reserved.get("sagemaker_container_log_level")
    level = choose(
        "log level",
        (_number(sent), "hyperparameter sagemaker_container_log_level"),
        (_number(settings.log_level), "SAGEMAKER_CONTAINER_LOG_LEVEL"),
    )
    odd = [text for text in (sent, settings.log_level) if text and _number(text) is None]
    note = f"log level {odd[0]!r} is unknown" if odd else level.conflict
    return level.value or _INFO, note


def _number(level: str | None) -> int | None:
    levels = {"DEBUG": 10, "INFO": 20, "WARN": 30, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
    if not level:
        return None
    return int(level) if level.isdecimal() and len(level) < _DIGITS else levels.get(level.upper())


def _channels(input_data: Mapping[str, Any], paths: Paths) -> tuple[Channel, ...]:
    for name in input_data:
        refuse_unexportable("inputdataconfig.json: a channel's name", name, "Rename the channel.")
    return tuple(
        Channel(
            name,
            f"{paths.data}/{name}",
            str(entry.get("TrainingInputMode") or "File") if isinstance(entry, dict) else "File",
        )
        for name, entry in sorted(input_data.items())
    )
