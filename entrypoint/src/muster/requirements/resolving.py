"""What an installer prints where packages don't fit together, or a file doesn't. Pure."""

from __future__ import annotations

import re

from muster.requirements.ended import Ended, Told
from muster.requirements.packages import is_kept

_CAUSES = re.compile(r"The conflict is caused by:\n(?P<lines>(?:[ \t]+\S.*\n?)+)")
_CONSTRAINT = re.compile(r"The user requested \(constraint\) ([\w.-]+?)[=<>!~].*")
_UV = re.compile(r"No solution found when resolving dependencies:?\s*\n(?P<text>(?:.*\S.*\n?)+)")
_OTHER_PYTHON = re.compile(
    r"Package '(?P<name>[^']+)' requires a different Python: \S+ not in '(?P<wants>[^']+)'"
)
_IGNORED = re.compile(
    r"(?:Ignored the following versions that require a different python version|"
    r"Ignored the following versions that require a different python)\S*\s*(?P<list>.*)"
)
_WANTS = re.compile(r"Requires-Python (?P<wants>[^;]+)")
_NO_VERSION = re.compile(
    r"Could not find a version that satisfies the requirement (?P<spec>.+?) \(from versions: (?P<versions>.*?)\)\n"
)
_HASHES = re.compile(r"DO NOT MATCH THE HASHES.*\n\s+(?P<name>.+?)(?: from |:)")
_UNHASHED = re.compile(
    r"(?:In --require-hashes mode, all requirements must have their versions pinned|"
    r"Hashes are required in --require-hashes mode).*\n\s+(?P<name>[\w.-]+)"
)
_INVALID = re.compile(
    r"Invalid requirement: (?P<text>.+)(?:\n.*?)*?\(from line (?P<line>\d+) of (?P<file>\S+?)\)"
)
_MISSING = re.compile(
    r"Could not open requirements file: \[Errno \d+\] (?P<why>[^:]+): '(?P<file>[^']+)'"
)
_NEWEST = 6


def conflict(end: Ended) -> Told | None:
    """Two packages want different versions of a third, or of one that the image keeps."""
    if found := _UV.search(end.output):
        text = " ".join(found["text"].strip(" ╰─▶>").removeprefix("cause:").split())
        fits = "torch" in text or "numpy" in text
        return f"the packages can't be had together: {text}", _kept(end) if fits else ""
    found = _CAUSES.search(end.output)
    if not found:
        return None
    lines = [line.strip() for line in found["lines"].splitlines()]
    images = [
        line for line in lines if (match := _CONSTRAINT.fullmatch(line)) and is_kept(match[1])
    ]
    others = "; ".join(_asked(line) for line in lines if line not in images)
    if not images:
        return f"the packages don't fit together: {others}", "Loosen one of the versions."
    has = " and ".join(line.rpartition(" ")[2] for line in images)
    return f"{others}, and {end.holder[0]} has {has} ({end.holder[1]})", _kept(end)


def _asked(line: str) -> str:
    said = line.replace("The user requested (constraint)", "a constraint asks for")
    return said.replace("The user requested", "it asks for")


def _kept(end: Ended) -> str:
    if not any(end.holder):
        return "Loosen one of the versions."
    return (
        "torch and what is built for it stay as they are. Ask for versions that fit it, take an image "
        "with another torch, or set MUSTER_ALLOW_TORCH_CHANGE=1."
    )


def other_python(end: Ended) -> Told | None:
    """A package that is for other versions of Python."""
    if found := _OTHER_PYTHON.search(end.output):
        return f"{found['name']} needs Python {found['wants']}, and this is {end.python}", _ANOTHER
    found, none = _IGNORED.search(end.output), _NO_VERSION.search(end.output)
    if not found or not none:
        return None
    wants = sorted({match["wants"].strip() for match in _WANTS.finditer(found["list"])})
    return (
        f"{_plain(none['spec'])} needs Python {' or '.join(wants)}, and this is {end.python}",
        _ANOTHER,
    )


_ANOTHER = "Ask for a version of it that is for this Python, or take an image with another."


def no_version(end: Ended) -> Told | None:
    """No such package, or no such version of it."""
    found = _NO_VERSION.search(end.output)
    if not found:
        return None
    spec, source = _plain(found["spec"]), f"the folder {end.wheels}" if end.wheels else "the index"
    if found["versions"] == "none":
        remedy = (
            "Is the name right? Wheels for another Python or platform don't count, and an index that wants "
            "credentials may show nothing without them."
        )
        if end.wheels:
            remedy = f"Where there is such a folder, nothing else is asked. pip download -d wheels -r {end.label} fills it."
        return f"{spec} is not in {source}, or has nothing for Python {end.python}", remedy
    versions = found["versions"].split(", ")[-_NEWEST:]
    return f"there is no {spec} in {source}", f"Its newest versions there: {', '.join(versions)}."


def _plain(spec: str) -> str:
    """`absent>=2 (from mid)`, without where in a file of ours."""
    return re.sub(r" \(from -r \S+ \(line \d+\)\)", "", spec)


def hashes(end: Ended) -> Told | None:
    """A package that is not the one whose hash was written down."""
    if found := _HASHES.search(end.output):
        return (
            f"{found['name']} has another hash than the file says",
            "It was replaced at the index, or the file's hash is of another wheel.",
        )
    found = _UNHASHED.search(end.output)
    if not found:
        return None
    what = f"{found['name']} is without hash or exact version, and others have one"
    return (
        what,
        "With hashes each package needs one, also those that others depend on: pip-compile --generate-hashes writes them.",
    )


def file_itself(end: Ended) -> Told | None:
    """A line that is none, or a file that isn't there."""
    if found := _INVALID.search(end.output):
        return f"line {found['line']} of {found['file']} can't be read: {found['text'].strip()}", ""
    if found := _MISSING.search(end.output):
        return f"{found['file']} can't be opened: {found['why']}", ""
    return None


READERS = (conflict, other_python, hashes, no_version, file_itself)
