"""Each local host's contract folder, with what SageMaker would put there. Effects: writes files."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import Any

from muster.code.entry import is_command
from muster.errors import CodeError, ContractError
from muster.local.options import Options
from muster.model import Paths


@dataclass(frozen=True)
class LocalHost:
    """One host: its name in the job, its loopback address, its /opt/ml."""

    name: str
    address: str
    paths: Paths

    @property
    def job(self) -> str:
        """The job's name: its folder's."""
        return os.path.basename(os.path.dirname(self.paths.base))


def channels(options: Options) -> tuple[tuple[str, str], ...]:
    """The names and folders of all channels. In containers the code is one, as on SageMaker."""
    code = (("code", os.path.dirname(os.path.abspath(options.script))),)
    return options.channels + (code if options.in_containers and not names_command(options) else ())


def checkpoints(options: Options, host: str) -> str:
    """A host's folder for checkpoints that outlives the run; empty where none is asked for."""
    return os.path.join(os.path.abspath(options.checkpoints), host) if options.checkpoints else ""


def names_command(options: Options) -> bool:
    """Whether the script is no file here but may be a command on the hosts' PATH."""
    return is_command(options.script) and not os.path.exists(options.script)


def make_hosts(options: Options, folder: str) -> list[LocalHost]:
    """Writes the contract of every host below `folder`.

    They share one model folder, as the hosts of SageMaker's own local mode do.

    Raises:
        CodeError: the script does not exist.
        ContractError: a channel's folder does not exist, or one for checkpoints can't be made.
    """
    _check(options)
    given = channels(options)
    hosts = [
        LocalHost(f"algo-{i + 1}", f"127.0.0.{i + 1}", Paths(os.path.join(folder, f"algo-{i + 1}")))
        for i in range(options.hosts)
    ]
    model = os.path.join(folder, "model")
    os.makedirs(model)
    for host in hosts:
        os.makedirs(host.paths.config)
        os.makedirs(host.paths.data)
        os.makedirs(host.paths.output_data)
        os.symlink("../model", host.paths.model)
        if kept := checkpoints(options, host.name):
            _make_kept(kept)
            if not options.in_containers:
                os.symlink(kept, host.paths.checkpoints)
        for name, source in given:
            place = os.path.join(host.paths.data, name)
            if options.in_containers:
                os.mkdir(place)  # The folder is mounted there; a link would lead out of /opt/ml.
            else:
                os.symlink(os.path.abspath(source), place)
        _write(host, "hyperparameters", dict(options.hyperparameters))
        _write(host, "inputdataconfig", {n: {"TrainingInputMode": "File"} for n, _ in given})
        _write(host, "resourceconfig", _resources(options, host, hosts))
    return hosts


def _make_kept(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        what = f"--checkpoints: {folder} can't be made: {error.strerror}"
        raise ContractError(what, "Name a folder that this user can write to.") from error


def _check(options: Options) -> None:
    if not os.path.isfile(options.script) and not names_command(options):
        what = "is a folder" if os.path.isdir(options.script) else "does not exist"
        raise CodeError(f"the script {options.script} {what}")
    given = channels(options)
    for name, source in given:
        if not re.fullmatch(r"[A-Za-z0-9._-]+", name) or name.strip(".") == "":
            raise ContractError(f"channel {name!r}: a name takes letters, digits, dots, - and _")
        if [each for each, _ in given].count(name) > 1:
            own = name == "code" and options.in_containers
            why = "with --backend docker it is the script's folder" if own else "given twice"
            raise ContractError(f"channel {name}: {why}")
        if not os.path.isdir(source):
            raise ContractError(f"channel {name}: the folder {source} does not exist")


def _resources(options: Options, host: LocalHost, hosts: list[LocalHost]) -> dict[str, Any]:
    return {
        "current_host": host.name,
        "hosts": [each.name for each in hosts],
        "network_interface_name": "eth0" if options.in_containers else "lo",
        "current_instance_type": "local",
    }


def _write(host: LocalHost, name: str, value: dict[str, Any]) -> None:
    with open(os.path.join(host.paths.config, f"{name}.json"), "w", encoding="utf-8") as file:
        json.dump(value, file)
