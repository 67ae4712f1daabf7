"""How an entry point is started. Effects: looks at the file's mode and first bytes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping

from muster.errors import CodeError


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


def command_for(path: str, python: Callable[[], str]) -> tuple[str, ...]:
    """The argv that starts the file at `path`.

    A .py file runs under what `python` finds, an executable file as itself, and a .sh file
    without the x bit under its interpreter's default, /bin/sh.

    Raises:
        CodeError: the file is neither.
    """
    if path.endswith(".py"):
        return (python(), path)
    if os.access(path, os.X_OK) and _is_program(path):
        return (path,)
    if path.endswith(".sh"):
        return ("/bin/sh", path)
    what = f"the entry point {path} is no .py or .sh file and is not executable"
    raise CodeError(what, "Name a .py file, or `chmod +x` the program and give it a #! line.")


def _is_program(path: str) -> bool:
    # execve takes a script with a #! line or an ELF file; all else fails as "Exec format error".
    with open(path, "rb") as file:
        head = file.read(4)
    return head.startswith(b"#!") or head == b"\x7fELF"
