"""Thins out progress bars: a bar that is drawn anew a thousand times a second. Pure.

A bar ends each of its states with a CR, or begins it with one. A log driver keeps them all, in
one endless line. So of the states that come close together the last one is shown.
"""

from __future__ import annotations

import re

INTERVAL_S = 0.2
"""At most one state of a bar in this time."""

_BARE = re.compile(rb"\r(?!\n)")


class Thinner:
    """What one stream has shown of its bar, and what it has held back."""

    def __init__(self) -> None:
        self.held = b""
        """The newest state that was not shown; another one, or the line's end, replaces it."""
        self._shown_at = float("-inf")

    def thin(self, block: bytes, now: float) -> bytes:
        """`block` without the states that nobody would see.

        Args:
            block: whole lines, or states that end with CR; never half of a CR LF.
            now: the time, in seconds of a clock that only goes on.
        """
        if b"\r" not in block and not self.held:
            return block
        lines = block.split(b"\n")
        ended = [line + b"\n" for line in lines[:-1]]
        kept = [part for line in (*ended, lines[-1]) if line for part in self._states(line, now)]
        return b"".join(kept)

    def due(self, now: float) -> float:
        """Seconds until what is held must be shown; endless when nothing is."""
        return max(0.0, self._shown_at + INTERVAL_S - now) if self.held else float("inf")

    def release(self, now: float) -> bytes:
        """What was held back, which counts as shown now."""
        held, self.held = self.held, b""
        if held:
            self._shown_at = now
        return held

    def _states(self, line: bytes, now: float) -> list[bytes]:
        """The parts of one line that are shown: at most one state, and the line's own end."""
        cuts = [match.end() for match in _BARE.finditer(line)]
        states = [line[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]
        end = line[cuts[-1] :] if cuts else line
        self.held = states[-1] if states else self.held
        # A bar's last state is drawn over by the end of its line, if there is anything in it.
        over, recent = bool(end.strip()), now - self._shown_at < INTERVAL_S
        covered = (over and (recent or not states)) or (recent and not end)
        shown = b"" if covered else self.release(now)
        if end:
            self.held = b""
        return [shown, end]
