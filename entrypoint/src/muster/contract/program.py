"""Which script the job means, and what its command line gives it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.settings import Settings


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
    places = [
        (script[0] if script else None, "the command line"),
        (settings.program, "SAGEMAKER_PROGRAM"),
        (reserved.get("sagemaker_program"), "hyperparameter sagemaker_program"),
    ]
    named = [(name, source) for name, source in places if name]
    arguments = tuple(command_line[len(script) :])
    if not named:
        return Program(None, "", arguments, None)
    name, source = named[0]
    loser = next(((other, place) for other, place in named if other != name), None)
    conflict = loser and f"entry point {name} from {source} wins over {loser[0]} from {loser[1]}"
    return Program(name, source, arguments, conflict)


def find_submit_directory(
    settings: Settings, reserved: Mapping[str, str]
) -> tuple[str | None, str | None]:
    """Where the code is said to be, and a line for the log when two places disagree.

    The hyperparameter wins: it is this job's, the variable may be the image's.
    """
    sent, variable = reserved.get("sagemaker_submit_directory"), settings.submit_directory
    if sent and variable and sent != variable:
        return sent, f"submit directory {sent} wins over SAGEMAKER_SUBMIT_DIRECTORY={variable}"
    return sent or variable, None
