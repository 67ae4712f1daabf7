"""The commands and snippets of the README, so that tests run what users read."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    text = README.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def aws_blocks() -> list[str]:
    """The shell blocks from a registry to a first job, which belong together."""
    shell = blocks("bash")
    (first,) = (i for i, block in enumerate(shell) if "get-caller-identity" in block)
    (last,) = (i for i, block in enumerate(shell) if "first_job.py" in block)
    return shell[first : last + 1]
