"""What is left to do once this host's ranks are over: their last lines, what they have left running, the launcher.

Effects: signals processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from muster.launch import children
from muster.launch.ranks import Ranks
from muster.launch.remote import RemoteStart
from muster.launch.stragglers import Stragglers
from muster.launch.streams import LogPump
from muster.log import say

_DRAIN_S = 2.0
"""How long the last output may take; after that a leftover process is holding the pipe."""
_LAUNCHER_S = 0.5
"""What a launcher gets to end by itself once its ranks are over (mpirun would take 4 s)."""


class Afterwards:
    """The end of one launcher and its ranks.

    Args:
        here: they, and what runs here for other hosts.
        pump: where their output goes.
        turn: one turn of the loop, of at most so many seconds.
    """

    def __init__(
        self,
        here: tuple[children.Launcher, Ranks, RemoteStart],
        pump: LogPump,
        turn: Callable[[float | None], None],
    ) -> None:
        self._launcher, self._ranks, self._remote = here
        self._pump = pump
        self._turn = turn

    def end_output(self) -> None:
        """Shows the ranks' last lines, and ends what they have left behind."""
        self._end_leftovers()
        # What a launcher says of ranks that failed is long, and we know better. After a good end
        # all that it can say is that another host's launcher has gone before it.
        self._launcher.mute()

    def finish(self, stopped: Callable[[], bool]) -> None:
        """The job is over: lets everything go, at once when the job was asked to stop."""
        for rank in self._ranks.all:
            rank.release()
        deadline = time.monotonic() + _LAUNCHER_S
        while self._lingers() and time.monotonic() < deadline:
            self._turn(deadline - time.monotonic())
            if stopped():
                break
        self._launcher.kill()
        self._remote.end(0.0)
        while self._remote.processes:
            self._turn(0.05)

    def wait_for_stragglers(self, until: float, ours: Collection[int]) -> None:
        """After a stop, what the scripts have left running may finish in the rest of their time.

        Args:
            until: when that is over, on the monotonic clock.
            ours: further processes of the harness's own.
        """
        shims = [rank.shim for rank in self._ranks.all]
        groups = [rank.pid for rank in self._ranks.all if rank.pid]
        launchers = self._launcher.processes | self._remote.processes
        stragglers = Stragglers(groups, [*launchers, *shims, *ours])
        told = False
        while time.monotonic() < until and (working := stragglers.working()):
            if not told:
                told = True
                left = until - time.monotonic()
                say(f"the ranks are over; what they have left running has {left:.0f} s: {working}")
            self._turn(0.1)

    def _lingers(self) -> bool:
        """Whether a launcher, or what one has started here, is still running."""
        own = self._launcher.process is not None and not self._launcher.ended
        return own or bool(self._remote.processes)

    def _end_leftovers(self) -> None:
        """Ends what a rank's script left running with our pipes in its hands."""
        # The launcher's own pipes stay open until it ends.
        own = self._launcher.outputs
        if self._pump.drain(_DRAIN_S, own):
            return
        for rank in self._ranks.all:
            if rank.pid:
                children.kill_group(rank.pid)
        self._pump.drain(_DRAIN_S, own)
