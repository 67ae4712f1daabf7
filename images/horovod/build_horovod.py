"""Builds Horovod's wheel from its sdist on PyPI, for the torch in /opt/venv, with MPI and Gloo.

Its last release wants C++14, torch's headers want C++17 since 2.1: a patch raises it. What it does not find it leaves out
without a word, so everything is asked for, or ruled out, by name.
"""

from __future__ import annotations

import hashlib
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


def fetch(version: str, sha256: str) -> Path:
    """Return the unpacked, patched source. Raises CalledProcessError, ValueError. Effects: network, files."""
    SOURCE.mkdir()
    # Not `pip download`: it would run the sdist's setup.py before anybody has looked at it.
    command = ["pip", "download", "--no-deps", "--no-binary=:all:", "--no-build-isolation"]
    subprocess.run([*command, "--dest", SOURCE, f"horovod=={version}"], check=False)
    archive = SOURCE / f"horovod-{version}.tar.gz"
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != sha256:
        raise ValueError(f"{archive.name} has SHA-256 {found}, not {sha256}")
    subprocess.run(["tar", "-xzf", archive, "-C", SOURCE, "--strip-components=1"], check=True)
    patch = Path(__file__).with_name("cxx17.patch")
    subprocess.run(["patch", "-p1", "-i", patch], cwd=SOURCE, check=True)
    return SOURCE


def main(version: str, sha256: str) -> int:
    """Build the wheel and fetch those of what it needs. Raises CalledProcessError, ValueError. Effects: files in /wheels."""
    pip = ["pip", "--python", PYTHON, "wheel", "--wheel-dir", str(WHEELS)]
    subprocess.run([*pip, *DEPENDENCIES], check=True)
    install = ["pip", "--python", PYTHON, "install", "--no-index", "--find-links", str(WHEELS)]
    subprocess.run([*install, *DEPENDENCIES], check=True)
    source = fetch(version, sha256)
    env = {**os.environ, **ASKED, "MAKEFLAGS": f"-j{os.cpu_count()}"}
    env["PATH"] = f"/opt/venv/bin:{env['PATH']}"
    build = [*pip, "--no-deps", "--no-build-isolation", str(source)]
    subprocess.run(build, env=env, check=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
