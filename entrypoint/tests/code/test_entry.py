import os
import shutil
import subprocess
import sys

import pytest

from muster.code.entry import command_for, find_python
from muster.errors import CodeError


@pytest.mark.parametrize(
    ("name", "content", "mode", "command"),
    [
        ("train.py", "", 0o644, ("PYTHON", "PATH")),
        ("train.py", "#!/usr/bin/env python\n", 0o755, ("PYTHON", "PATH")),
        ("run.sh", "#!/bin/bash\n", 0o755, ("PATH",)),
        ("run.sh", "#!/bin/bash\n", 0o644, ("/bin/sh", "PATH")),
        ("run.sh", "echo\n", 0o755, ("/bin/sh", "PATH")),
        ("run.sh", "", 0o755, ("/bin/sh", "PATH")),
        ("program", "#!/bin/sh\n", 0o755, ("PATH",)),
    ],
)
def test_command_by_kind(opt_ml, name: str, content: str, mode: int, command: tuple[str, ...]):
    """Python runs .py files, the kernel what it can run, and /bin/sh any other .sh file."""
    path = str(opt_ml.file(name, content, mode))
    expected = tuple(
        {"PYTHON": "/usr/bin/python", "PATH": path}.get(word, word) for word in command
    )
    assert command_for(path, lambda: "/usr/bin/python") == expected


@pytest.mark.parametrize(
    ("content", "mode"),
    [("#!/bin/sh\n", 0o644), ("just text\n", 0o755), ("", 0o755)],
    ids=["no x bit", "no #! line", "empty"],
)
def test_what_cannot_be_started_is_refused(opt_ml, content: str, mode: int):
    """A file that no one could start is refused before anything runs, with what to do."""
    path = opt_ml.file("program", content, mode)
    with pytest.raises(CodeError, match=f"{path} is no .py or .sh file") as error:
        command_for(str(path), lambda: "/usr/bin/python")
    assert "chmod +x" in error.value.remedy


def test_a_binary_is_started_as_itself(tmp_path):
    """A copied program of the system runs by the command that was made for it."""
    path = tmp_path / "program"
    shutil.copy("/bin/echo", path)
    command = command_for(str(path), lambda: "/usr/bin/python")
    assert command == (str(path),)
    assert subprocess.run([*command, "hi"], capture_output=True, check=True).stdout == b"hi\n"


def test_the_chosen_python():
    """The chosen interpreter is used, by its path or by its name."""
    assert find_python(sys.executable, {}) == sys.executable
    folder, name = os.path.split(sys.executable)
    assert find_python(name, {"PATH": folder}) == sys.executable


def test_python3_before_python(opt_ml):
    """The first Python on PATH is taken, python3 before python, never the harness's own."""
    python = opt_ml.file("bin/python", "", 0o755)
    env = {"PATH": str(python.parent)}
    assert find_python(None, env) == str(python)
    python3 = opt_ml.file("bin/python3", "", 0o755)
    assert find_python(None, env) == str(python3)


@pytest.mark.parametrize("chosen", [None, "python9"])
def test_no_python_is_an_error(tmp_path, chosen: str | None):
    """Without an interpreter the error names what was looked for, and the variable that helps."""
    with pytest.raises(CodeError, match=chosen or "python3 and python") as error:
        find_python(chosen, {"PATH": str(tmp_path)})
    assert "MUSTER_PYTHON" in error.value.remedy
