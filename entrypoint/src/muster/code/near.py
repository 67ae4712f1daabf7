"""Names that a misspelt one may have meant. Effects: lists a folder."""

from __future__ import annotations

import os


def near_names(path: str) -> str:
    """`. Did you mean train.py?`, of what is in the folder of a path that does not exist; empty for nothing near."""
    import difflib  # noqa: PLC0415  (3 ms, for a rare case)

    folder, name = os.path.split(path)
    try:
        near = difflib.get_close_matches(name, os.listdir(folder), n=1, cutoff=0.75)
    except OSError:
        near = []
    return f". Did you mean {near[0]}?" if near else ""
