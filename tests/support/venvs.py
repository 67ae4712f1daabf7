"""Virtual environments for packages that must not meet ours, made once for each requirements file."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build"


def venv_python(requirements: Path) -> Path:
    """The interpreter of a venv that holds `requirements`. Effects: may take minutes, uses pip."""
    version = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    folder = BUILD / f"{requirements.stem}-{version}"
    python = folder / "bin" / "python"
    BUILD.mkdir(exist_ok=True)
    # Tests run in several processes: the first one makes it, the others wait.
    with open(BUILD / f"{folder.name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _make(folder, python, requirements)
    return python


def _make(folder: Path, python: Path, requirements: Path) -> None:
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [python, "-m", "pip", "install", "-qq", "-r", requirements]
        subprocess.run(pip, check=True, timeout=600)
        (folder / "complete").touch()
