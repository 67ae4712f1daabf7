"""The fake for whole programs: libnvidia-ml.so.1, built by the machine's own C compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fake_nvml.script import Script

SOURCE = Path(__file__).with_name("nvml.c")
LIBRARY = "libnvidia-ml.so.1"
SCRIPT = "FAKE_NVML"
"""The variable that names the script, in its flat form."""


def build_library(folder: Path, script: Script) -> dict[str, str]:
    """Builds the library in a folder, beside a script. The variables that make programs use both.

    The script may be replaced later: each process reads it when it first calls nvmlInit.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler for the fake driver")
    folder.mkdir(parents=True, exist_ok=True)
    # An older C library than this machine's may load it, in a container.
    words = ["-std=gnu11", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wl,-soname," + LIBRARY]
    if not (folder / LIBRARY).exists():
        subprocess.run([compiler, *words, SOURCE, "-o", folder / LIBRARY], check=True, timeout=60)
    (folder / "script").write_text(script.flat(), encoding="utf-8")
    return {"LD_LIBRARY_PATH": str(folder), SCRIPT: str(folder / "script")}
