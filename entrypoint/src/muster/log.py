"""The harness's own lines in the log. Effects: writes to stderr.

On stderr, so that stdout stays the script's; with a prefix of their own, so that
nobody takes them for a rank's.
"""

from __future__ import annotations

import os

_name = "muster"


def sign_as(host: str) -> None:
    """From now on lines carry the host's name: in `muster local` several harnesses share a log."""
    global _name  # noqa: PLW0603  (one process, one host)
    _name = f"muster {host}"


def say(text: str) -> None:
    """Writes `text`, each of its lines with the prefix, in one piece."""
    block = "".join(f"[{_name}] {line}\n" for line in text.splitlines())
    try:
        os.write(2, block.encode("utf-8", "replace"))
    except OSError:
        return  # Nobody reads the log: no reason to end a job.
