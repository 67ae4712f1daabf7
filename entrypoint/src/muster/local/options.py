"""The command line of `muster local`. Pure, but for argparse's exit on `--help` and errors."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

_MOST_HOSTS = 254
_IMAGE = "muster/ddp:cpu"
_SHM_SIZE = "1g"


@dataclass(frozen=True)
class Options:
    """What the user asked for. `arguments` go to the script as they are."""

    script: str
    arguments: tuple[str, ...]
    hosts: int
    nproc: int
    channels: tuple[tuple[str, str], ...]
    hyperparameters: tuple[tuple[str, str], ...]
    out: str
    launcher: str | None
    backend: str
    image: str
    shm_size: str
    checkpoints: str | None

    @property
    def in_containers(self) -> bool:
        return self.backend == "docker"


def parse(words: Sequence[str]) -> Options:
    """The options in `words`. What stands after `--` goes to the script."""
    words = list(words)
    cut = words.index("--") if "--" in words else len(words)
    parser = _parser()
    chosen = parser.parse_args(words[:cut])
    if chosen.backend != "docker" and (chosen.image or chosen.shm_size):
        parser.error("--image and --shm-size are for --backend docker")
    return Options(
        script=chosen.script,
        arguments=tuple(words[cut + 1 :]),
        hosts=chosen.hosts,
        nproc=chosen.nproc,
        channels=tuple(chosen.channel),
        hyperparameters=tuple(chosen.hyperparameter),
        out=chosen.out,
        launcher=chosen.launcher,
        backend=chosen.backend,
        image=chosen.image or _IMAGE,
        shm_size=chosen.shm_size or _SHM_SIZE,
        checkpoints=chosen.checkpoints,
    )


class _Parser(argparse.ArgumentParser):
    """With the one hint that everybody needs once."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments"):
            message += " (what is for the script goes behind --)"
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="muster local",
        usage="muster local SCRIPT [options] [-- ARGS for the script]",
        description="Runs a training job of several hosts on this machine, without AWS.",
    )
    parser.add_argument(
        "script", metavar="SCRIPT", help="the training script, or a command on PATH"
    )
    parser.add_argument("--hosts", type=_count, default=1, help="how many hosts (default 1)")
    parser.add_argument("--nproc", type=_count, default=1, help="ranks on each (default 1)")
    parser.add_argument(
        "--channel",
        type=_pair,
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="an input channel; may be given several times",
    )
    parser.add_argument(
        "--hyperparameter",
        type=_pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="as an Estimator would send it; may be given several times",
    )
    parser.add_argument(
        "--out",
        default="muster-out",
        metavar="FOLDER",
        help="where results go (default muster-out)",
    )
    parser.add_argument(
        "--launcher",
        help="torchrun, mpirun, horovodrun, cluster or plain (default: the image's, or torchrun)",
    )
    parser.add_argument(
        "--checkpoints",
        metavar="FOLDER",
        help="where checkpoints go, a folder a host in it: a second run with it finds them (default: in --out, of one run)",
    )
    _add_backend(parser)
    return parser


def _add_backend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend",
        choices=["process", "docker"],
        default="process",
        help="what a host is: processes (default), or a container",
    )
    docker = parser.add_argument_group(
        "with --backend docker",
        "The shell's variables go into the containers, but for those about this machine (PATH, HOME, "
        "PYTHON..., proxies). Files that containers write belong to root.",
    )
    docker.add_argument("--image", help=f"the containers' image (default {_IMAGE})")
    docker.add_argument(
        "--shm-size",
        type=_size,
        metavar="SIZE",
        help=f"each container's /dev/shm (default {_SHM_SIZE}; Docker's own 64m is too small "
        "for data loaders)",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_HOSTS:
        message = f"{text!r}: must be 1 to {_MOST_HOSTS}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        message = f"{text!r} is not NAME=VALUE"
        raise argparse.ArgumentTypeError(message)
    return name, value


def _size(text: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]*[bkmg]?", text):
        message = f"{text!r} is no size such as 512m or 1g"
        raise argparse.ArgumentTypeError(message)
    return text
