"""What muster's probe sees of a fake driver, in this process and in one of its own."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pynvml

import muster
from fake_nvml.answers import Library
from muster.check.gpu import probe


def install(library: Library) -> Any:
    """Puts a fake in the place of the C library that nvidia-ml-py has loaded. Returns nvidia-ml-py."""
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    return pynvml


def lines_of(library: Library) -> list[dict[str, Any]]:
    """The lines that the probe prints, without a process."""
    lines: list[dict[str, Any]] = []
    probe.look(install(library), lambda told: lines.append(json.loads(json.dumps(told))))
    return lines


def command(module: str) -> tuple[str, ...]:
    """`python -I -m MODULE` with the muster and nvidia-ml-py of this process, wherever they are."""
    folders = [
        os.path.dirname(os.path.dirname(muster.__file__)),
        os.path.dirname(pynvml.__file__),
    ]
    text = f"import sys; sys.path[:0] = {folders!r}; from {module} import main; sys.exit(main())"
    return sys.executable, "-I", "-c", text
