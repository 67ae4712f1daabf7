# ruff: noqa: INP001
"""Installs Debian packages during a build, with the machine's own apt settings, and leaves nothing of them behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = Path("/run/apt/muster.list")
SETTINGS = Path("/run/apt/muster.conf")
LEFTOVERS = ("/var/lib/apt/lists", "/var/cache/apt", "/var/log/apt", "/var/cache/ldconfig")


def options() -> list[str]:
    """Return apt's options for the sources that the build was given; none means the base's own. Effects: looks for the file."""
    if not SOURCES.is_file():
        return []
    return ["-o", f"Dir::Etc::sourcelist={SOURCES}", "-o", "Dir::Etc::sourceparts=/dev/null"]


def main(packages: list[str]) -> int:
    """Install the packages; nothing to do without any. Raises CalledProcessError. Effects: apt."""
    if not packages:
        return 0
    settings = {"APT_CONFIG": str(SETTINGS)} if SETTINGS.is_file() else {}
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", **settings}
    apt = ["apt-get", "-q", *options()]
    for step in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        subprocess.run([*apt, *step], env=env, check=True)
    for folder in LEFTOVERS:
        shutil.rmtree(folder, ignore_errors=True)
    for log in Path("/var/log").glob("*.log"):
        log.unlink()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
