"""What an installer prints where a package can't be built, or files can't be written. Pure."""

from __future__ import annotations

import re

from muster.requirements.compiler import NO_COMPILER
from muster.requirements.ended import Ended, Told
from muster.requirements.git import HOW_TO_GET_IT, NO_GIT

_BUILT = (
    re.compile(r"Failed (?:building wheel for|to build) [`']?(?P<name>[\w.-]+)"),
    re.compile(r"generating package metadata\.\n╰─> (?P<name>[\w.-]+)\s*$", re.MULTILINE),
)
_COLLECTING = re.compile(r"^Collecting (?P<name>[\w.-]+)", re.MULTILINE)
_FAILED = re.compile(
    r"subprocess-exited-with-error|Failed building wheel|Failed to build|metadata-generation-failed"
)
_CLONED = re.compile(r"^\s*(?:Cloning|Updating) (?P<url>\S+)", re.MULTILINE)
_SAID = re.compile(r"\[\d+ lines of output\]\n(?P<text>.*?)\n\s*\[end of output\]", re.DOTALL)
_OS = re.compile(
    r"(?:OSError|PermissionError)?:? ?\[Errno (?P<number>\d+)\] (?P<why>[^:\n]+)(?:: '(?P<path>[^']+)')?"
    r"|(?P<uv>Permission denied|No space left on device) \(os error \d+\)"
)
_MANAGED = "externally-managed"


def managed(end: Ended) -> Told | None:
    """A Python that the system keeps to itself."""
    return MANAGED if _MANAGED in end.output else None


MANAGED = (
    "this Python belongs to the system, which lets nobody install into it (PEP 668)",
    "Put a venv first on PATH, or name its Python by MUSTER_PYTHON. PIP_BREAK_SYSTEM_PACKAGES=1 overrides it.",
)


def no_compiler(end: Ended) -> Told | None:
    """A source package that has to be compiled, and nothing that compiles."""
    found = NO_COMPILER.search(end.output)
    if not found:
        return None
    missing = next((text for text in found.groupdict().values() if text), "a compiler")
    what = f"{_package(end.output)} comes as source and needs {missing}, which the image lacks"
    remedy = (
        "The image's tag with -dev (cpu-dev) has compilers, and so has one built with MUSTER_APT_PACKAGES=g++. "
        "Or build a wheel of it elsewhere, into a folder wheels/ beside the file."
    )
    return what, remedy


def no_git(end: Ended) -> Told | None:
    """A package that comes from a repository, and nothing that fetches it."""
    if not NO_GIT.search(end.output):
        return None
    cloned = _CLONED.findall(end.output)
    what = f"{cloned[-1] if cloned else 'a package'} is fetched by git, which the image lacks"
    remedy = (
        f"{HOW_TO_GET_IT} Or build a wheel of it elsewhere, into a folder wheels/ beside the file, "
        "and ask for it by its name alone."
    )
    return what, remedy


def no_build(end: Ended) -> Told | None:
    """A source package that can't be built for another reason."""
    if not _FAILED.search(end.output) or "git clone" in end.output:
        return None
    blocks = _SAID.findall(end.output)
    lines = [line.strip() for line in (blocks[-1] if blocks else "").splitlines() if line.strip()]
    last = f": {lines[-1]}" if lines else ""
    remedy = "It comes as source. A wheel of it, built elsewhere, can be in a folder wheels/ beside the file."
    return f"{_package(end.output)} can't be built{last}", remedy


def no_room(end: Ended) -> Told | None:
    """The file system says no."""
    found = _OS.search(end.output)
    if not found or not re.search(r"^(ERROR|error|OSError)|os error", end.output, re.MULTILINE):
        return None
    why = found["uv"] or found["why"]
    place = f": {found['path']}" if found["path"] else ""
    if "No space" in why:
        return f"{why}{place}", "A larger volume (volume_size), or TMPDIR on another one."
    if "Permission" in why or "Read-only" in why:
        return f"{why}{place}", "Run the container as root, or install in the image."
    return None


def _package(output: str) -> str:
    for pattern in _BUILT:
        if found := pattern.search(output):
            return found["name"]
    named = _COLLECTING.findall(output)
    return str(named[-1]) if named else "a package"


READERS = (managed, no_git, no_compiler, no_build, no_room)
