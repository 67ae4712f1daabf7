"""Which script the job means, and what its command line gives it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.contract.precedence import Choice, choose
from muster.settings import Settings

SUBMIT_HYPERPARAMETER = "hyperparameter sagemaker_submit_directory"


@dataclass(frozen=True)
class Program:
    """The entry point as the user named it; `name` is None when nobody did."""

    name: str | None
    source: str
    arguments: tuple[str, ...]
    conflict: str | None
    """A line for the log when two places name different ones."""


def find_program(
    settings: Settings, reserved: Mapping[str, str], command_line: Sequence[str]
) -> Program:
    """The command line's script, else SAGEMAKER_PROGRAM's, else sagemaker_program's.

    A command line that begins with an option names no script: `docker run IMAGE train
    --epochs 3` gives arguments to the one that is named elsewhere.
    """
    script = [word for word in command_line[:1] if not word.startswith("-")]
    chosen = choose(
        "entry point",
        (script[0] if script else None, "the command line"),
        (settings.program, "SAGEMAKER_PROGRAM"),
        (reserved.get("sagemaker_program"), "hyperparameter sagemaker_program"),
    )
    return Program(chosen.value, chosen.source, tuple(command_line[len(script) :]), chosen.conflict)


def find_submit_directory(settings: Settings, reserved: Mapping[str, str]) -> Choice[str]:
    """Where the code is said to be.

    The hyperparameter wins: it is this job's, the variable may be the image's.
    """
    return choose(
        "submit directory",
        (reserved.get("sagemaker_submit_directory"), SUBMIT_HYPERPARAMETER),
        (settings.submit_directory, "SAGEMAKER_SUBMIT_DIRECTORY"),
    )
