"""Virtual environments for packages that must not meet ours, made once for each requirements file."""

from __future__ import annotations

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
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [python, "-m", "pip", "install", "-qq", "-r", requirements]
        subprocess.run(pip, check=True, timeout=600)
        (folder / "complete").touch()
    return python
