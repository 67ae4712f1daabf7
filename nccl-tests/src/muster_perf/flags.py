"""The command line: nccl-tests' flags, and a few of ours. Pure, but for argparse's exit on `--help` and errors."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

MIB = 2**20
OPS = ("sum", "prod", "min", "max", "avg")
TYPES = {
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "int64": 8,
    "half": 2,
    "float": 4,
    "double": 8,
    "bfloat16": 2,
}
"""The types that torch.distributed has, with their bytes, in nccl-tests' order."""
_OTHER_TYPES = ("uint32", "uint64", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2")
_ONE_GPU = (
    "one process drives one GPU here: start as many as there are GPUs (torchrun --nproc-per-node N)"
)
_NCCL_ONLY = "it is NCCL's own, and torch.distributed has no such thing"
_REFUSED = {
    "p": ("parallel_init", _ONE_GPU),
    "y": ("stream_null", _NCCL_ONLY),
    "G": ("cudagraph", "CUDA graphs are not measured"),
    "C": ("report_cputime", "times are the device's, as without it"),
    "R": ("local_register", _NCCL_ONLY),
    "x": ("cta_policy", _NCCL_ONLY),
    "D": ("device_implementation", _NCCL_ONLY),
    "V": ("device_cta_count", _NCCL_ONLY),
    "M": ("memory_report", "memory is not reported; nvidia-smi shows it"),
    "I": ("per_iteration", "iterations are timed together, with one synchronisation"),
    "K": ("skip", "iterations are timed together, with one synchronisation"),
    "u": ("unalign", "buffers are always aligned"),
}
"""nccl-tests' other flags, and why they are refused."""


@dataclass(frozen=True)
class Flags:
    """What the user asked for. Sizes are bytes; names are nccl-tests' own."""

    minbytes: int = 32 * MIB
    maxbytes: int = 32 * MIB
    stepbytes: int = MIB
    stepfactor: int = 1
    iters: int = 20
    agg_iters: int = 1
    warmup_iters: int = 1
    run_cycles: int = 1
    check: int = 1
    op: str = "sum"
    datatype: str = "float"
    root: int = 0
    average: int = 1
    blocking: int = 0
    timeout: int = 0
    report_timestamps: bool = False
    output_file: str | None = None
    world: int = 0
    """How many ranks there must be; 0 for any number."""
    backend: str | None = None
    by_host: bool = False

    @property
    def ops(self) -> tuple[str, ...]:
        return OPS if self.op == "all" else (self.op,)

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(TYPES) if self.datatype == "all" else (self.datatype,)


def parse(command: str, words: Sequence[str]) -> Flags:
    """The flags in `words`. What can't be done ends the process with status 2 and the flag's name."""
    parser = _parser(command)
    chosen = vars(parser.parse_args(words))
    flags = Flags(**{name: chosen[name] for name in Flags.__dataclass_fields__})
    if flags.minbytes > flags.maxbytes:
        parser.error(f"-b {flags.minbytes} is more than -e {flags.maxbytes}")
    if flags.minbytes == 0 and flags.stepfactor > 1:
        parser.error("-b 0 stays 0 whatever -f multiplies it by")
    return flags


class _Parser(argparse.ArgumentParser):
    """With one line for an error: every rank prints it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class _Refuse(argparse.Action):
    """A flag of nccl-tests' that has no meaning here."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        parser.error(f"{'/'.join(self.option_strings)} is not supported: {self.const}")


def _parser(command: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=command,
        description=f"{command} of nccl-tests over torch.distributed, one process a GPU.",
        epilog=f"Refused, though nccl-tests has them: -{' -'.join(_REFUSED)}, and -g and -t other than 1.",
        allow_abbrev=False,
    )
    _add_sizes(parser)
    _add_runs(parser)
    _add_values(parser)
    _add_ours(parser)
    for letter, name in (("g", "ngpus"), ("t", "nthreads")):
        parser.add_argument(
            f"-{letter}", f"--{name}", type=_one, help="1: one process drives one GPU"
        )
    for letter, (name, why) in _REFUSED.items():
        flag = (f"-{letter}", f"--{name}")
        parser.add_argument(*flag, action=_Refuse, nargs="?", const=why, help=argparse.SUPPRESS)
    return parser


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    for flag, name, which in (("-b", "minbytes", "smallest"), ("-e", "maxbytes", "largest")):
        parser.add_argument(
            flag, f"--{name}", default=getattr(Flags, name), type=read_size, metavar="BYTES",
            help=f"the {which} size (default 32M)",
        )  # fmt: skip
    parser.add_argument(
        "-i", "--stepbytes", default=Flags.stepbytes, type=_step, metavar="BYTES",
        help="what is added from size to size (default 1M)",
    )  # fmt: skip
    parser.add_argument(
        "-f", "--stepfactor", default=Flags.stepfactor, type=_positive, metavar="N",
        help="or what a size is multiplied by",
    )  # fmt: skip


def _add_runs(parser: argparse.ArgumentParser) -> None:
    for flag, name, kind, what in (
        ("-n", "iters", _positive, "calls that are timed together"),
        ("-m", "agg_iters", _positive, "calls that count as one of them"),
        ("-w", "warmup_iters", _natural, "calls of each size before anything is timed"),
        ("-N", "run_cycles", _natural, "how often the sweep is run; 0 for ever"),
        ("-c", "check", _natural, "how often the values are checked; 0 for not at all"),
        ("-T", "timeout", _natural, "seconds until a call is given up; 0 for the backend's own"),
    ):
        default = getattr(Flags, name)
        parser.add_argument(
            flag, f"--{name}", default=default, type=kind, metavar="N",
            help=f"{what} (default {default})",
        )  # fmt: skip
    parser.add_argument(
        "-z", "--blocking", default=0, type=int, choices=(0, 1, 2),
        help="1: wait and meet after each call; 2: wait only (default 0: wait once)",
    )  # fmt: skip
    parser.add_argument(
        "-a", "--average", default=1, type=int, choices=(0, 1, 2, 3),
        help="whose time counts: 0 rank 0's, 1 the mean (default), 2 the least, 3 the most",
    )  # fmt: skip


def _add_values(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--op", default="sum", type=_op, metavar="OP", help=f"{', '.join(OPS)} or all"
    )
    parser.add_argument(
        "-d", "--datatype", default="float", type=_type, metavar="TYPE",
        help=f"{', '.join(TYPES)} or all",
    )  # fmt: skip
    parser.add_argument(
        "-r", "--root", default=0, type=int, metavar="RANK", help="the root; -1 for each in turn"
    )
    parser.add_argument(
        "-S", "--report_timestamps", default=False, type=_switch, metavar="0/1",
        help="the time of day behind each row",
    )  # fmt: skip
    parser.add_argument(
        "-J", "--output_file", metavar="FILE", help="write the results as JSON, too"
    )


def _add_ours(parser: argparse.ArgumentParser) -> None:
    ours = parser.add_argument_group("not in nccl-tests")
    ours.add_argument(
        "--world", default=0, type=_positive, metavar="N",
        help="fail if fewer ranks have met (also MUSTER_EXPECT_WORLD)",
    )  # fmt: skip
    ours.add_argument("--backend", metavar="NAME", help="default: nccl with GPUs, gloo without")
    ours.add_argument(
        "--by-host", action="store_true", help="then the rates of every pair of hosts, at size -e"
    )


def read_size(text: str) -> int:
    """Bytes: 8, 512K, 1M. Raises ArgumentTypeError."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?)([KMG]?)", text, re.IGNORECASE)
    if not found:
        message = f"{text!r} is no size such as 8, 512K, 1M or 1G"
        raise argparse.ArgumentTypeError(message)
    return int(float(found[1]) * 1024 ** " KMG".index(found[2].upper() or " "))


def _step(text: str) -> int:
    size = read_size(text)
    if not size:
        message = "0 would never come to an end"
        raise argparse.ArgumentTypeError(message)
    return size


def _natural(text: str) -> int:
    if not text.isdecimal():
        message = f"{text!r} is no whole number from 0 on"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        message = f"{text!r} is no whole number from 1 on"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _one(text: str) -> int:
    if text != "1":
        message = f"{text!r} is not supported: {_ONE_GPU}"
        raise argparse.ArgumentTypeError(message)
    return 1


def _switch(text: str) -> bool:
    return _natural(text) != 0


def _op(text: str) -> str:
    if text == "mulsum":
        message = f"mulsum is not supported: {_NCCL_ONLY}"
        raise argparse.ArgumentTypeError(message)
    if text not in (*OPS, "all"):
        message = f"{text!r} is none of {', '.join(OPS)}, all"
        raise argparse.ArgumentTypeError(message)
    return text


def _type(text: str) -> str:
    if text in _OTHER_TYPES:
        message = f"{text} is not supported: not every backend of torch.distributed can send it"
        raise argparse.ArgumentTypeError(message)
    if text not in (*TYPES, "all"):
        message = f"{text!r} is none of {', '.join(TYPES)}, all"
        raise argparse.ArgumentTypeError(message)
    return text
