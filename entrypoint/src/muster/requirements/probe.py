"""Run by the user's own Python, as a file: what that Python holds, and what requirements would change of it.

The harness has no `packaging`, and is another Python. Here pip's own copy answers. Effects: reads metadata, writes its
answer as JSON into a file: the Python may print what it likes.

    python probe.py '{"answer": "/tmp/x.json", "file": "/opt/ml/code/requirements.txt", "pins": {"torch": "2.13.0+cpu"}}'
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and sys.path and sys.path[0] == __file__.rpartition("/")[0]:
    del sys.path[0]  # The modules beside this file are the harness's.

import importlib
import importlib.metadata
import json
import os
import re
import sysconfig
from typing import Any

ABI_ONLY = ("numpy",)
"""What may change, but for its major version: compiled code depends on that alone."""
_CONTINUED = re.compile(r"\\\r?\n")
_COMMENT = re.compile(r"(^|\s+)#.*$")
_FILE_OPTION = re.compile(r"(?:-r|--requirement)[\s=]*(?P<path>\S.*)")
_ASKING = re.compile(r"-e|--editable|-r|--requirement\b")
"""Options that ask for packages; the others only say where to look."""
_OPTIONS = re.compile(r"\s--?[a-zA-Z].*$")


def normal(name: str) -> str:
    """A package's name as indexes compare it. Pure."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, str]:
    """Every package's version, by its normal name; the first on sys.path counts. Effects: reads metadata."""
    found: dict[str, str] = {}
    for dist in importlib.metadata.distributions():
        name = dist.metadata["Name"]
        if name:
            found.setdefault(normal(name), dist.version)
    return found


def rules(pins: dict[str, str], held: dict[str, str]) -> dict[str, str]:
    """What is kept, as specifiers: a base that was extended keeps what it holds now. Pure."""
    kept = {}
    for name, pinned in pins.items():
        version = held.get(name, pinned)
        major = version.partition(".")[0]
        kept[name] = f"=={major}.*" if name in ABI_ONLY else f"=={version}"
    return kept


def lines(path: str, seen: set[str]) -> list[tuple[str, str]]:
    """The logical lines of a requirements file and of those that it names, each with its file."""
    if path in seen:
        return []
    seen.add(path)
    with open(path, "rb") as file:
        data = file.read()
    utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = _CONTINUED.sub(" ", data.decode("utf-16" if utf16 else "utf-8-sig", "replace"))
    found = []
    for line in text.splitlines():
        stripped = _COMMENT.sub("", line).strip()
        option = _FILE_OPTION.match(stripped)
        named = option["path"].strip("\"' ") if option else ""
        below = os.path.normpath(os.path.join(os.path.dirname(path), named))
        if named and os.path.isfile(below):
            found += lines(below, seen)
        elif stripped:  # pip says what is missing.
            found.append((path, stripped))
    return found


class Judge:
    """Compares requirements with what is kept, by the words of `packaging`."""

    def __init__(self, packaging: str, kept: dict[str, str], held: dict[str, str]) -> None:
        self._requirement = importlib.import_module(f"{packaging}.requirements").Requirement
        self._specifiers = importlib.import_module(f"{packaging}.specifiers").SpecifierSet
        self._wheel = importlib.import_module(f"{packaging}.utils").parse_wheel_filename
        self._kept, self._held = kept, held

    def conflict(self, line: str) -> str:
        """The name of the kept package that this line would change; empty for none."""
        text = _OPTIONS.sub("", line).strip()
        try:
            wanted = self._requirement(text)
        except ValueError:
            return self._by_wheel(text)  # A path or a bare URL, or nothing that pip takes.
        name = normal(wanted.name)
        applies = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if name not in self._kept or not applies:
            return ""
        if wanted.url:
            return "" if self._is_same(wanted.url, name) else name
        versions = self._versions(name, str(wanted.specifier))
        fits = any(wanted.specifier.contains(each, prereleases=True) for each in versions)
        return "" if fits else name

    def _versions(self, name: str, specifier: str) -> list[str]:
        """Versions that the rule allows; for a whole range, those at which the specifier may turn."""
        rule = self._kept[name]
        if not rule.endswith(".*"):
            return [rule[2:]]
        major = rule[2:-2]
        named = re.findall(r"\d+(?:\.\d+)*", specifier)
        near = [text for each in named for text in (each, f"{each}.1")]
        allowed = self._specifiers(rule)
        candidates = [self._held.get(name, f"{major}.0"), f"{major}.0", f"{major}.9999", *near]
        return [each for each in candidates if allowed.contains(each, prereleases=True)]

    def _by_wheel(self, text: str) -> str:
        named = self._parsed(text)
        if not named or named[0] not in self._kept:
            return ""
        return "" if self._is_same(text, named[0]) else named[0]

    def _is_same(self, url: str, name: str) -> bool:
        named = self._parsed(url)
        rule = self._specifiers(self._kept[name])
        return named is not None and rule.contains(named[1], prereleases=True)

    def _parsed(self, url: str) -> tuple[str, str] | None:
        base = re.split(r"[#?;\s]", url, maxsplit=1)[0].rpartition("/")[2].replace("%2B", "+")
        try:
            name, version, *_ = self._wheel(base)
        except ValueError:
            return None
        return normal(name), str(version)


def settings_of_pip() -> dict[str, str]:
    """What pip's files and variables say, by the option's name. Empty where this pip tells it in another way."""
    try:
        configuration = importlib.import_module("pip._internal.configuration")
        loaded = configuration.Configuration(isolated=False)
        loaded.load()
        found: dict[str, str] = {}
        for key, value in loaded.items():
            pairs = value.items() if isinstance(value, dict) else [(key, value)]
            found.update((name.rpartition(".")[2], str(text)) for name, text in pairs)
    except Exception:  # noqa: BLE001  (no public API: the installation goes on without it)
        return {}
    return found


def is_managed() -> bool:
    """Whether the system's own package manager keeps this Python to itself (PEP 668)."""
    if sys.prefix != sys.base_prefix:
        return False
    return os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED"))


def main(asked: dict[str, Any]) -> dict[str, Any]:
    """The whole answer. Effects: as above."""
    held = installed()
    kept = rules(asked.get("pins", {}), held)
    wanted = lines(asked["file"], set()) if asked.get("file") else []
    conflicts = []
    for packaging in ("pip._vendor.packaging", "packaging"):
        try:
            judge = Judge(packaging, kept, held)
        except ImportError:
            continue
        found = [(path, line, judge.conflict(line)) for path, line in wanted if line[0] != "-"]
        conflicts = [each for each in found if each[2]]
        break
    return {
        "python": ".".join(map(str, sys.version_info[:2])),
        "installed": held,
        "pip": held.get("pip", ""),
        "managed": is_managed(),
        "kept": kept,
        "conflicts": conflicts,
        "hashes": any("--hash" in line or "--require-hashes" in line for _, line in wanted),
        "empty": not any(line[0] != "-" or _ASKING.match(line) for _, line in wanted),
        "lines": [line for _, line in wanted if "://" in line],
        "config": settings_of_pip(),
    }


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    with open(asked["answer"], "w", encoding="utf-8") as file:
        json.dump(main(asked), file)
