"""The command line: what each word after `muster` does.

train [SCRIPT ARGS…]   the whole pipeline; without SageMaker's files a one-host job
plan [--json] …        what would run, without running it
check [--level full]   looks at this host as a job would, also without one
storage-plan …         what a file system must give for an epoch's time
local SCRIPT …         several hosts on this machine
serve                  says what this image is for
--version, --help
anything else          is run in muster's place: `docker run IMAGE torchrun --help`
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import NoReturn

from muster import signals
from muster.errors import SIGNAL_BASE, StopRequested
from muster.toolpath import with_own_venv

_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_USAGE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its status. Effects: the command's."""
    # Before the stages are imported: PID 1 loses a SIGTERM for which it has no handler.
    signals.catch_early()
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        words = ["train"] if os.getpid() == 1 else ["--help"]
    command = _COMMANDS.get(words[0])
    if command is None:
        _become(words)
    try:
        return command(words[1:])
    except StopRequested as stop:
        return SIGNAL_BASE + stop.signum


def _train(words: list[str]) -> int:
    if words[:1] in (["--help"], ["-h"]):
        return _help([])
    from muster.train import train  # noqa: PLC0415  (each command imports what it needs)

    status = train(words, with_own_venv(os.environ))
    if threading.active_count() > 1:
        # A download that a signal or another host has cut short: Python would wait for its threads.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status


def _plan(words: list[str]) -> int:
    from muster.show import show_plan  # noqa: PLC0415

    return show_plan(words, with_own_venv(os.environ))


def _check(words: list[str]) -> int:
    from muster.inspection import inspect_host  # noqa: PLC0415

    return inspect_host(words, with_own_venv(os.environ))


def _storage_plan(words: list[str]) -> int:
    from muster.storage_plan import show_storage_plan  # noqa: PLC0415

    return show_storage_plan(words)


def _local(words: list[str]) -> int:
    from muster.local import local  # noqa: PLC0415

    return local(words, os.environ)


def _serve(_words: list[str]) -> int:
    print(
        "muster: this image trains models, it does not serve them.\n"
        "Take the model that it wrote (model.tar.gz) to an inference image.",
        file=sys.stderr,
    )
    return _USAGE


def _help(_words: list[str]) -> int:
    print(__doc__)
    return 0


def _version(_words: list[str]) -> int:
    from muster import __version__  # noqa: PLC0415

    print(f"muster {__version__}")
    return 0


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": _train,
    "plan": _plan,
    "check": _check,
    "storage-plan": _storage_plan,
    "local": _local,
    "serve": _serve,
    "--help": _help,
    "-h": _help,
    "--version": _version,
}


def _become(words: list[str]) -> NoReturn:
    signals.before_exec()
    try:
        os.execvp(words[0], words)
    except OSError as error:
        print(f"muster: {_cannot_run(words[0], error)}", file=sys.stderr)
        raise SystemExit(
            _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
        ) from None


def _cannot_run(word: str, error: OSError) -> str:
    if word.endswith((".py", ".sh")):
        return f"{word} is no command; to run a script: muster train {word}"
    if isinstance(error, FileNotFoundError):
        return f"{word}: neither a command of muster nor a program here (see muster --help)"
    return f"{word}: {error.strerror} (see muster --help)"
