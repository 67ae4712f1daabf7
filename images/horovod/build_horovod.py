"""Builds Horovod's wheel from its sdist on PyPI, for the torch in /opt/venv, with MPI, Gloo and, given a CUDA compiler, NCCL.

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
# Turing, Ampere, Hopper, Blackwell; the last one also as PTX, for what comes after it.
ARCHITECTURES = "75,80,90,100"


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


def add_cuda(compiler: list[str]) -> dict[str, str]:
    """Make a CUDA toolkit of PyPI's compiler and torch's own libraries; return what Horovod's build is to be told.

    Horovod so links the very NCCL that torch loads. No driver is needed: nothing is run on a GPU.
    Raises CalledProcessError, ValueError. Effects: network, files in the venv of this stage.
    """
    pip("install", "--no-deps", *compiler)
    (nvidia,) = Path("/opt/venv").glob("lib/python3.*/site-packages/nvidia")
    (home,) = nvidia.glob("cu[0-9]*")
    (home / "lib64").symlink_to("lib")
    # Linkers look for the plain names, which wheels of libraries lack.
    for folder in (home / "lib", nvidia / "nccl/lib"):
        for library in folder.glob("lib*.so.*"):
            plain = folder / f"{library.name.partition('.so.')[0]}.so"
            if not plain.exists():
                plain.symlink_to(library.name)
    return {
        "PATH": f"{home}/bin:/opt/venv/bin:{os.environ['PATH']}",
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_CUDA_HOME": str(home),
        "HOROVOD_NCCL_HOME": str(nvidia / "nccl"),
        "HOROVOD_NCCL_LINK": "SHARED",
        "HOROVOD_BUILD_CUDA_CC_LIST": ARCHITECTURES,
    }


def main(version: str, sha256: str, *compiler: str) -> int:
    """Build the wheel and fetch those of what it needs. Raises CalledProcessError. Effects: files in /wheels."""
    into = ("--wheel-dir", str(WHEELS))
    pip("wheel", *into, *DEPENDENCIES)
    pip("install", "--no-index", "--find-links", str(WHEELS), *DEPENDENCIES)
    pip("install", "wheel")
    asked = {**ASKED, "MAKEFLAGS": f"-j{os.cpu_count()}"}
    if compiler:
        asked |= add_cuda([*compiler])
    fetch(version, sha256)
    pip("wheel", *into, "--no-deps", "--no-build-isolation", str(SOURCE), **asked)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
