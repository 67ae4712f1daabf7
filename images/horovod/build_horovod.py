"""Builds Horovod's wheel from its sdist on PyPI, for the torch in /opt/venv, with MPI and Gloo.

Its last release wants C++14, torch's headers want C++17 since 2.1: a patch raises it. What it does not find it leaves out
without a word, so everything is asked for, or ruled out, by name.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PYTHON = "/opt/venv/bin/python"
WHEELS = Path("/wheels")
SOURCE = Path("/tmp/horovod")  # noqa: S108  (a build step is alone)
DEPENDENCIES = ("cloudpickle", "psutil", "pyyaml", "packaging", "cffi")
ASKED = {
    "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITH_MPI": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
}


def pip(*words: str, **env: str) -> None:
    """Run pip on the user's Python. Raises CalledProcessError. Effects: network, files."""
    path = f"/opt/venv/bin:{os.environ['PATH']}"
    command = ["pip", "--python", PYTHON, *words]
    subprocess.run(command, env={**os.environ, "PATH": path, **env}, check=True)


def fetch(version: str, sha256: str) -> None:
    """Put the patched source into SOURCE. Raises CalledProcessError. Effects: network, files."""
    SOURCE.mkdir()
    # With a hash pip looks at the archive before it runs anything of it.
    wanted = SOURCE / "wanted.txt"
    wanted.write_text(f"horovod=={version} --hash=sha256:{sha256}\n", encoding="utf-8")
    options = ("--no-deps", "--no-binary=:all:", "--no-build-isolation", "--require-hashes")
    pip("download", *options, "--dest", str(SOURCE), "-r", str(wanted))
    archive = str(SOURCE / f"horovod-{version}.tar.gz")
    subprocess.run(["tar", "-xzf", archive, "-C", SOURCE, "--strip-components=1"], check=True)
    patch = Path(__file__).with_name("cxx17.patch")
    subprocess.run(["patch", "-p1", "-i", patch], cwd=SOURCE, check=True)


def main(version: str, sha256: str) -> int:
    """Build the wheel and fetch those of what it needs. Raises CalledProcessError. Effects: files in /wheels."""
    into = ("--wheel-dir", str(WHEELS))
    pip("wheel", *into, *DEPENDENCIES)
    pip("install", "--no-index", "--find-links", str(WHEELS), *DEPENDENCIES)
    pip("install", "wheel")
    fetch(version, sha256)
    jobs = f"-j{os.cpu_count()}"
    pip("wheel", *into, "--no-deps", "--no-build-isolation", str(SOURCE), **ASKED, MAKEFLAGS=jobs)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
