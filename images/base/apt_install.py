"""Installs Debian packages during a build, with the machine's own apt settings, and leaves nothing of them behind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = Path("/run/apt/muster.list")
SETTINGS = Path("/run/apt/muster.conf")
LEFTOVERS = ("/var/lib/apt/lists", "/var/cache/apt", "/var/log/apt", "/var/cache/ldconfig")


def codename() -> str:
    """Return the name of the base's release; sources of another one would tear it apart. Effects: reads os-release."""
    text = Path("/etc/os-release").read_text(encoding="utf-8")
    found = re.search(r"^VERSION_CODENAME=(\S+)", text, re.MULTILINE)
    return f" {found[1]} " if found else "no release"


def environment() -> dict[str, str]:
    """Return this process's environment with apt's settings for the build. Effects: a file that goes with the step.

    What the build was given comes before the base's own sources; every program that calls apt follows it.
    """
    lines = [SETTINGS.read_text(encoding="utf-8")] if SETTINGS.is_file() else []
    if SOURCES.is_file() and codename() in SOURCES.read_text(encoding="utf-8"):
        lines += [f'Dir::Etc::sourcelist "{SOURCES}";', 'Dir::Etc::sourceparts "/dev/null";']
    found = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if lines:
        # In memory: no layer keeps it.
        path = Path("/dev/shm/muster-apt.conf")  # noqa: S108  (a build step is alone)
        path.write_text("\n".join(lines), encoding="utf-8")
        found["APT_CONFIG"] = str(path)
    return found


def clean() -> None:
    """Remove what apt leaves behind. Effects: files."""
    for folder in LEFTOVERS:
        shutil.rmtree(folder, ignore_errors=True)
    for log in Path("/var/log").glob("*.log"):
        log.unlink()


def main(packages: list[str]) -> int:
    """Install the packages; nothing to do without any. Raises CalledProcessError. Effects: apt."""
    if not packages:
        return 0
    for step in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        subprocess.run(["apt-get", "-q", *step], env=environment(), check=True)
    clean()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
