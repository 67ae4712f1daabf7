"""An installer's run that has failed, as data. Pure."""

from __future__ import annotations

from dataclasses import dataclass

Told = tuple[str, str]
"""What is wrong, and what to do about it."""


@dataclass(frozen=True)
class Ended:
    """How an installer has ended, and what it had been asked."""

    output: str
    """Both of its streams."""
    status: int
    """Its exit code, or -n for signal n."""
    tool: str = "pip"
    """pip or uv."""
    label: str = "requirements.txt"
    """What was to be installed."""
    holder: tuple[str, str] = ("", "")
    """Who has what is kept, the image or a Python, and where that is told; empty where nothing is."""
    wheels: str = ""
    """The folder that stood in the index's place."""
    empty_wheels: bool = False
    """Whether there is such a folder and nothing in it, so that an index was asked."""
    python: str = ""
    """The Python's version, as 3.11."""
    gave_up: bool = False
    """Whether we have ended it, because no index answered."""
    log: str = ""
    """Where all of its output is."""
