"""One installation at a time into one Python, and the files that it needs. Effects: a lock, files."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from muster.errors import RequirementsError
from muster.log import say
from muster.mask import mask_text


@contextmanager
def alone_with(python: str) -> Iterator[None]:
    """Waits for others who install into this Python: hosts of `muster local` may share a venv.

    The lock is on the folder of the interpreter: it needs no file, nor the right to write one.
    """
    fd = None
    try:
        with suppress(OSError):  # Some file systems have no locks.
            fd = os.open(os.path.dirname(python), os.O_RDONLY | os.O_CLOEXEC)
            _lock(fd)
        yield
    finally:
        if fd is not None:
            os.close(fd)


def _lock(fd: int) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("requirements: another host installs into the same Python: waiting for it")
        fcntl.flock(fd, fcntl.LOCK_EX)


@contextmanager
def private_folder() -> Iterator[str]:
    """A folder that only this user can enter; it goes at the end."""
    try:
        folder = tempfile.mkdtemp(prefix="muster-requirements-")
    except OSError as error:
        what = f"no temporary folder can be made: {error.strerror}"
        raise RequirementsError(what, "Mount a writable /tmp, or set TMPDIR.") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def written(folder: str, name: str, text: str) -> str:
    """The path of a new file with this text. Raises RequirementsError."""
    path = os.path.join(folder, name)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        what = f"{path} can't be written: {error.strerror}"
        raise RequirementsError(what, "Give /tmp more room, or set TMPDIR.") from error
    return path


def writable_project(project: str, folder: str) -> str:
    """The project's folder, or a copy below `folder` where it can't be written: builds leave files in it."""
    return project if not project or os.access(project, os.W_OK) else copied(project, folder)


def copied(project: str, folder: str) -> str:
    """A copy of the project's folder below `folder`. Raises RequirementsError."""
    copy = os.path.join(folder, "project")
    passed_over = shutil.ignore_patterns("wheels", ".git")
    try:
        shutil.copytree(project, copy, symlinks=True, ignore=passed_over)
        os.chmod(copy, 0o700)
    except OSError as error:
        # shutil.Error, too, which holds a list: source, target and reason of each file.
        first = error.args[0][0] if isinstance(error, shutil.Error) else ()
        why = f"{first[0]}: {first[2]}" if first else error.strerror or str(error)
        what = f"the project {project} can't be written to, nor copied to be installed: {why}"
        raise RequirementsError(
            what, "Make it writable, or put the data beside it elsewhere."
        ) from error
    return copy


def keep_output(source: str, path: str) -> str:
    """Copies an installer's output without its secrets, and returns the path; empty where that fails."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with (
            open(source, encoding="utf-8", errors="replace") as output,
            open(path, "w", encoding="utf-8") as file,
        ):
            file.writelines(map(mask_text, output))
    except OSError as error:
        say(f"{path} can't be written: {error.strerror}")
        return ""
    return path
