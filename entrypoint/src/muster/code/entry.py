"""How an entry point is started. Effects: looks at files; asks Python for a module."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Mapping
from typing import NamedTuple

from muster.errors import CodeError

_ELF = b"\x7fELF"
_HEAD = 512
_MAIN = "__main__.py"
_ASK_S = 60
_SCRIPTS = (".py", ".sh")
_OURS = ("muster", "muster-rank", "muster-rsh", "train")
"""On PATH in every image: a job whose `train` is missing must not start itself."""
_CHMOD = "Name a .py file, a module or a folder with __main__.py; or `chmod +x` the program and give it a #! line."


class Entry(NamedTuple):
    """What starts an entry point."""

    command: tuple[str, ...]
    is_python: bool


def find_python(chosen: str | None, env: Mapping[str, str]) -> str:
    """The interpreter for the script: the chosen one, else the first on PATH.

    Never the harness's own: the script must find the user's packages.

    Raises:
        CodeError: there is none.
    """
    names = [chosen] if chosen else ["python3", "python"]
    for name in names:
        path = shutil.which(name, path=env.get("PATH"))
        if path:
            return path
    what = f"no Python for the script: {' and '.join(names)} not found on PATH"
    raise CodeError(what, "Set MUSTER_PYTHON to an interpreter, or put one on PATH.")


def find_entry(folder: str, program: str, python: Callable[[], str]) -> Entry | None:
    """What starts `program` of `folder`; None where there is no such thing in it.

    In this order: a file of that name; a folder of that name with a __main__.py; the file with .py behind
    its name; a module of that dotted name. Modules run as `python -m`, a script whose #! line names Python as it is.

    Args:
        folder: where the code is.
        program: as the user names it.
        python: finds the interpreter, where one is needed.

    Raises:
        CodeError: it is there, but nothing can start it.
    """
    path = os.path.normpath(os.path.join(folder, program))
    if _is_file(path):
        return _entry_of(path, python)
    if _is_file(os.path.join(path, _MAIN)) and not _is_package(path, program):
        return Entry((python(), path), is_python=True)
    if _is_file(f"{path}.py") and "/" in program:
        return Entry((python(), f"{path}.py"), is_python=True)
    if is_dotted(program):
        inside = os.path.join(folder, *program.split("."))
        if _is_file(f"{inside}.py") or _is_file(os.path.join(inside, _MAIN)):
            return Entry((python(), "-m", program), is_python=True)
    return None


def find_installed(program: str, python: Callable[[], str], env: Mapping[str, str]) -> Entry | None:
    """What starts an installed module, as `json.tool`, or a command on PATH, as `all_reduce_perf`; or None.

    Raises:
        CodeError: it is there, but nothing can start it.
    """
    if program.endswith(_SCRIPTS) or program in _OURS:
        return None
    return _find_module(program, python, env) or _find_command(program, python, env)


def is_command(program: str) -> bool:
    """Whether `program` has the form of a command's name: no path, and no script. Pure."""
    return "/" not in program and not program.endswith(_SCRIPTS) and program not in _OURS


def _find_command(program: str, python: Callable[[], str], env: Mapping[str, str]) -> Entry | None:
    path = shutil.which(program, path=env.get("PATH")) if is_command(program) else None
    return _entry_of(path, python) if path else None


def _find_module(program: str, python: Callable[[], str], env: Mapping[str, str]) -> Entry | None:
    if not is_dotted(program):
        return None
    ask = "import sys, importlib.util as u; raise SystemExit(u.find_spec(sys.argv[1]) is None)"
    argv = [python(), "-c", ask, program]
    try:
        asked = subprocess.run(
            argv, env=dict(env), capture_output=True, timeout=_ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if asked.returncode else Entry((argv[0], "-m", program), is_python=True)


def is_dotted(program: str) -> bool:
    """Whether `program` has the form of a module's name. Pure."""
    return all(part.isidentifier() for part in program.split("."))


def _is_package(path: str, program: str) -> bool:
    """Whether the folder is a package that can be run by name: its modules may import each other by `from .`."""
    return is_dotted(program) and _is_file(os.path.join(path, "__init__.py"))


def _entry_of(path: str, python: Callable[[], str]) -> Entry:
    """What starts the file at `path`.

    Python runs a .py file, and the kernel a program. A script that has lost its x bit, as S3 keeps none, runs under
    the interpreter of its #! line, and a .sh file without such a line under /bin/sh.
    """
    if path.endswith(".py"):
        return Entry((python(), path), is_python=True)
    head = _head(path)
    first = head.partition(b"\n")[0]
    is_script = first.startswith(b"#!")
    if first.endswith(b"\r") and (is_script or path.endswith(".sh")):
        what = f"the entry point {path} has Windows line ends (CRLF), which no shell understands"
        raise CodeError(what, f"Convert it: sed -i 's/\\r$//' {os.path.basename(path)}")
    if is_script and (interpreter := _interpreter(path, first)):
        executable = os.access(path, os.X_OK)
        command = (path,) if executable else (*interpreter, path)
        return Entry(command, is_python=_is_python(head))
    if path.endswith(".sh"):
        return Entry(("/bin/sh", path), is_python=False)
    if not head.startswith(_ELF):
        what = f"the entry point {path} is no .py or .sh file and is not executable"
        raise CodeError(what, _CHMOD)
    if not os.access(path, os.X_OK):
        what = f"the entry point {path} is a program without the x bit"
        raise CodeError(
            what, "S3 keeps no file modes: send it in an archive, or start it from a run.sh."
        )
    return Entry((path,), is_python=False)


def _interpreter(path: str, first: bytes) -> tuple[str, ...]:
    """The words of a #! line, split as the kernel does; empty for a line that names nothing.

    Raises:
        CodeError: the interpreter is not there: the kernel would say that of the script.
    """
    program, _, argument = first[2:].strip().partition(b" ")
    words = tuple(os.fsdecode(word.strip()) for word in (program, argument) if word.strip())
    if words and not os.access(words[0], os.X_OK):
        what = f"the entry point {path} begins with #!{words[0]}, and there is no such program here"
        raise CodeError(what, "Use #!/bin/sh, #!/bin/bash or #!/usr/bin/env NAME, or install it.")
    return words


def _is_python(head: bytes) -> bool:
    """Whether a script's first lines start Python.

    pip writes the second form where the interpreter's path is too long for a #! line, or has a blank.
    """
    first, _, rest = head.partition(b"\n")
    names = [os.path.basename(word) for word in first[2:].split()[:3]]  # env, and its -S
    return any(name.startswith(b"python") for name in names) or rest.startswith(b"'''exec' ")


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD)
    except OSError as error:
        raise _unreadable(path) from error


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError as error:
        # Not the same as a file that isn't there: this one would be found by root.
        raise _unreadable(path) from error
    except (OSError, ValueError):
        return False


def _unreadable(path: str) -> CodeError:
    what = f"the entry point {path} can't be read by user {os.getuid()}"
    return CodeError(what, "Make its folders readable, or run the container as root.")
