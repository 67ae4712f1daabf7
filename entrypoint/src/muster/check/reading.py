"""Small files and folders of the system, which may not be there. Effects: reads them."""

from __future__ import annotations

import os


def text(path: str) -> str:
    """A file's text; empty where it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def names(folder: str) -> list[str]:
    """What is in a folder; nothing where it can't be listed."""
    try:
        return os.listdir(folder)
    except OSError:
        return []
