"""The harness's own lines in the log. Effects: writes to stderr.

On stderr, so that stdout stays the script's; with a prefix of their own, so that
nobody takes them for a rank's.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable

_PATIENCE_S = 5.0
"""How long a line waits for a reader of the log that takes nothing."""
_ATOMIC = 4096
"""Bytes that a pipe which select calls writable takes without a wait (PIPE_BUF)."""

_name = "muster"
_sink: Callable[[bytes], None] | None = None


def sign_as(host: str) -> None:
    """From now on lines carry the host's name: in `muster local` several harnesses share a log."""
    global _name  # noqa: PLW0603  (one process, one host)
    _name = f"muster {host}"


def label() -> bytes:
    """What stands before the harness's own lines."""
    return f"[{_name}] ".encode("utf-8", "replace")


def send_to(sink: Callable[[bytes], None] | None) -> None:
    """From now on lines go through `sink`, which must not wait; with None to stderr again.

    While ranks run, their output goes the same way: no line overtakes another.
    """
    global _sink  # noqa: PLW0603  (one process, one log)
    _sink = sink


def say(text: str) -> None:
    """Writes `text`, each of its lines with the prefix, in one piece."""
    block = b"".join(
        label() + line.encode("utf-8", "replace") + b"\n" for line in text.splitlines()
    )
    if _sink:
        _sink(block)
    else:
        _write(block)


def _write(block: bytes) -> None:
    view = memoryview(block)
    try:
        while view and select.select([], [2], [], _PATIENCE_S)[1]:
            view = view[os.write(2, view[:_ATOMIC]) :]
    except OSError:
        return  # Nobody reads the log: no reason to end a job, nor to hold one.
