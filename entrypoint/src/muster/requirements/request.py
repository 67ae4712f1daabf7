"""What a job wants installed. Effects: looks at files."""

from __future__ import annotations

import codecs
import os
import re
from dataclasses import dataclass

from muster.errors import RequirementsError
from muster.model import Code
from muster.settings import Settings

_USUAL = "requirements.txt"
_NOTHING = "none"
_WHEELS = "wheels"
_PACKAGED = (".whl", ".tar.gz", ".zip")
_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_COOKIE = re.compile(rb"coding[:=]\s*([-\w.]+)")


@dataclass(frozen=True)
class Request:
    """What is to be installed, and from where."""

    folder: str
    """The code folder: paths in a requirements file are relative to it."""
    file: str = ""
    """The requirements file; empty for none."""
    project: str = ""
    """The folder of a project; empty for none."""
    wheels: str = ""
    """A folder with packages that stands in the index's place; empty for none."""
    text: str = ""
    """The file's text."""
    empty_wheels: bool = False
    """Whether there is such a folder with nothing in it."""

    @property
    def label(self) -> str:
        """What it is called in messages."""
        if not self.file:
            return "the project"
        return os.path.relpath(self.file, self.folder) if self._is_inside else self.file

    @property
    def _is_inside(self) -> bool:
        return self.file.startswith(self.folder.rstrip("/") + "/")


def look(code: Code, settings: Settings) -> Request | None:
    """What the code folder and the settings ask for; None for nothing.

    Raises:
        RequirementsError: a file that was named isn't there, or can't be read as text.
    """
    file = _file(code.directory, settings.requirements)
    project = _project(code.directory) if settings.install_project else ""
    if not file and not project:
        return None
    text = _read(file) if file else ""
    packaged = os.path.join(os.path.dirname(file) if file else code.directory, _WHEELS)
    names = _names(packaged)
    # A Python package of the user's may have that name, too.
    wheels = packaged if any(name.endswith(_PACKAGED) for name in names or ()) else ""
    empty = names is not None and all(name.startswith(".") for name in names)
    return Request(code.directory, file, project, wheels, text, empty)


def _file(folder: str, named: str | None) -> str:
    if named == _NOTHING:
        return ""
    path = os.path.normpath(os.path.join(folder, named or _USUAL))
    if os.path.isfile(path):
        return path
    if named:
        what = f"MUSTER_REQUIREMENTS={named}: there is no file {path}"
        raise RequirementsError(what, "It names a file in the code folder, or an absolute path.")
    if os.path.lexists(path):
        raise RequirementsError(f"{path} is no file", "MUSTER_REQUIREMENTS=none passes over it.")
    return ""


def _project(folder: str) -> str:
    if not any(
        os.path.isfile(os.path.join(folder, name)) for name in ("pyproject.toml", "setup.py")
    ):
        what = f"MUSTER_INSTALL_PROJECT=1, and {folder} has neither pyproject.toml nor setup.py"
        raise RequirementsError(what, "One of the two makes a folder a project.")
    return folder


def _names(folder: str) -> list[str] | None:
    """What is in a folder; None where there is none."""
    try:
        return os.listdir(folder)
    except OSError:
        return None


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        what = f"{path} can't be read: {error.strerror}"
        raise RequirementsError(what, "Make it readable for the container's user.") from error
    if data.startswith(_BOMS):
        utf16 = not data.startswith(codecs.BOM_UTF8)
        return data.decode("utf-16" if utf16 else "utf-8-sig", "replace")
    if b"\0" in data:
        number = data[: data.index(b"\0")].count(b"\n") + 1
        raise RequirementsError(f"{path} is no text: line {number} has a zero byte")
    if any(_COOKIE.search(line) for line in data.split(b"\n")[:2] if line.startswith(b"#")):
        return data.decode("utf-8", "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        number = data[: error.start].count(b"\n") + 1
        what = f"{path} is not UTF-8 in line {number}"
        raise RequirementsError(what, "Save it as UTF-8.") from None
