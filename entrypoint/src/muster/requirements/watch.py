"""Looks at an installer's output while it runs. Effects: reads a file, logs."""

from __future__ import annotations

import os

from muster.log import say
from muster.mask import mask_text
from muster.requirements.network import is_stuck

_SAY_EVERY_S = 10.0
_GIVE_UP_S = 22.0
"""How long an installer may ask without any answer, where the user has set no limits of his own."""
_TAIL = 256 * 1024
_SHOWN = 100


def tail(path: str) -> str:
    """The end of a program's output, which may be long."""
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
        return file.read().decode("utf-8", "replace")


class Watch:
    """Says that an installation goes on, and gives up where no index answers.

    Args:
        output: the file with what the installer prints.
        limited: whether its time limits are ours.
    """

    def __init__(self, output: str, *, limited: bool) -> None:
        self.gave_up = False
        self._output, self._limited = output, limited
        self._said = 0.0

    def __call__(self, seconds: float) -> bool:
        """Whether to go on after so many seconds."""
        if self._limited and seconds > _GIVE_UP_S and is_stuck(tail(self._output)):
            self.gave_up = True
            return False
        if seconds - self._said >= _SAY_EVERY_S:
            self._said = seconds
            say(f"requirements: installing, {seconds:.0f} s{self._last()}")
        return True

    def _last(self) -> str:
        lines = [line.strip() for line in tail(self._output).splitlines() if line.strip()]
        return f": {mask_text(lines[-1])[:_SHOWN]}" if lines else ""
