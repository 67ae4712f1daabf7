"""The contract's files and variables together, as one Job. Effects: reads files."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any

from muster.contract import files, hyperparameters, resources
from muster.contract.machine import look_at_machine
from muster.model import Channel, Job, Paths
from muster.settings import Settings, misspelt

_INFO = 20


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
    hps = files.read_object(paths.config, "hyperparameters.json")
    resource_config = files.read_object(paths.config, "resourceconfig.json")
    input_data = files.read_object(paths.config, "inputdataconfig.json")
    if not input_data and not resource_config:
        input_data = files.list_folders(paths.data)
    split = hyperparameters.split(hps)
    reserved = split.reserved
    cluster = resources.read_resources(resource_config, fallback_host=socket.gethostname())
    machine = look_at_machine(env)
    interface, note = resources.choose_interface(resource_config, machine)
    # `docker run IMAGE train --epochs 3` with the script named elsewhere: only arguments.
    named = [word for word in command_line[:1] if not word.startswith("-")]
    program, source, conflict = _program(settings, reserved, named)
    level, odd_level = _log_level(settings, reserved)
    return Job(
        name=settings.job_name or reserved.get("sagemaker_job_name") or "local",
        paths=paths,
        current_host=cluster.current_host,
        hosts=cluster.hosts,
        instance_type=cluster.instance_type,
        group=cluster.group,
        groups=cluster.groups,
        interface=interface,
        hyperparameters=split.user,
        reserved=reserved,
        channels=_channels(input_data, paths),
        program=program,
        program_source=source,
        program_args=tuple(command_line[len(named) :]),
        # The hyperparameter wins: it is this job's, the variable may be the image's.
        submit_directory=reserved.get("sagemaker_submit_directory") or settings.submit_directory,
        resource_config=resource_config,
        input_data_config=input_data,
        machine=machine,
        framework_params=split.framework,
        region=reserved.get("sagemaker_region") or settings.region or "",
        log_level=level,
        notes=(*misspelt(env), *(line for line in (note, conflict, odd_level) if line)),
    )


def _log_level(settings: Settings, reserved: Mapping[str, str]) -> tuple[int, str | None]:
    """The level as a number, and a note when what was sent is none. Names and numbers count."""
    text = reserved.get("sagemaker_container_log_level") or settings.log_level
    levels = {"DEBUG": 10, "INFO": 20, "WARN": 30, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
    level = int(text) if text.isdecimal() else levels.get(text.upper())
    if level is None:
        return _INFO, f"log level {text!r} is unknown: using INFO"
    return level, None


def _program(
    settings: Settings, reserved: Mapping[str, str], command_line: Sequence[str]
) -> tuple[str | None, str, str | None]:
    """The entry point, where it was named, and a note when two places disagree."""
    named = [
        (command_line[0] if command_line else None, "the command line"),
        (settings.program, "SAGEMAKER_PROGRAM"),
        (reserved.get("sagemaker_program"), "hyperparameter sagemaker_program"),
    ]
    found = [(name, source) for name, source in named if name]
    if not found:
        return None, "", None
    program, source = found[0]
    other = next(((name, where) for name, where in found if name != program), None)
    if other is None:
        return program, source, None
    note = f"entry point {program} from {source} wins over {other[0]} from {other[1]}"
    return program, source, note


def _channels(input_data: Mapping[str, Any], paths: Paths) -> tuple[Channel, ...]:
    return tuple(
        Channel(
            name,
            f"{paths.data}/{name}",
            str(entry.get("TrainingInputMode") or "File") if isinstance(entry, dict) else "File",
        )
        for name, entry in sorted(input_data.items())
    )
