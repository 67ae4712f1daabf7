"""Starts every host and waits until all have ended. Effects: those of the backend; signals."""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Mapping, Sequence

from muster.launch.streams import LogPump
from muster.local.backend import Backend, HostEnd, HostRun
from muster.local.folders import LocalHost
from muster.local.options import Options
from muster.log import say
from muster.signals import STOPPING, Inbox

_STOP_S = 130.0
"""What the hosts get after a signal: a little more than SageMaker gives."""
_TOGETHER_S = 3.0
"""What the other hosts get to end by themselves after one has failed, before they are asked."""
_ABORT_S = 15.0
"""What they get then: their ranks' own grace time, and a little."""
_NEVER = float("inf")
_OUTPUT_S = 5.0
"""How long output may still come after the last host's end."""


def run_hosts(
    backend: Backend, options: Options, hosts: Sequence[LocalHost], env: Mapping[str, str]
) -> list[HostEnd]:
    """Runs all hosts to their ends, in the order of `hosts`.

    A host that fails takes the others with it: they know by themselves, or are asked. SIGINT and SIGTERM are passed on once.

    Raises:
        BackendError: a host could not be started.
    """
    # Before anything is made: from here on no signal can keep it from being removed.
    inbox = Inbox()
    inbox.open()
    pump = LogPump()
    pump.start()
    try:
        with backend.start(options, hosts, env, pump) as runs:
            ends = _Watch(runs, inbox).wait()
            pump.drain(_OUTPUT_S)
    finally:
        pump.close()
    return ends


class _Watch:
    """Waits for the hosts' ends, and brings them about where it must. Use once."""

    def __init__(self, runs: Sequence[HostRun], inbox: Inbox) -> None:
        self._runs = runs
        self._inbox = inbox
        self._begun = time.monotonic()
        self._ends: dict[str, HostEnd] = {}
        self._stopped: set[str] = set()
        self._ending = False
        self._asked = 0
        """The signal that has come from outside."""
        self._ask_at = self._kill_at = _NEVER

    def wait(self) -> list[HostEnd]:
        """Returns when all hosts have ended."""
        while self._living:
            due = min(self._ask_at, self._kill_at)
            patience = None if due == _NEVER else max(0.0, due - time.monotonic())
            select.select([self._inbox], [], [], patience)
            for number in self._inbox.read():
                if number in STOPPING:
                    self._on_stop(number)
            self._collect()
            self._do_due(time.monotonic())
        return [self._ends[run.host.name] for run in self._runs]

    @property
    def _living(self) -> list[HostRun]:
        return [run for run in self._runs if run.host.name not in self._ends]

    def _on_stop(self, number: int) -> None:
        if self._asked:
            say("asked again: killing the hosts")
            self._kill_at = time.monotonic()
        elif not self._ending:
            # They end by themselves now, each in its own time: no host is to blame.
            self._ending, self._asked = True, number
            self._kill_at = time.monotonic() + _STOP_S
            say(f"the hosts have {_STOP_S:.0f} s to end; Ctrl-C again kills them")
            self._stop(number)

    def _collect(self) -> None:
        for run in self._living:
            name, status = run.host.name, run.poll()
            if status is not None:
                seconds = time.monotonic() - self._begun
                stopped = name in self._stopped
                self._ends[name] = HostEnd(run.host, status, seconds, stopped, self._asked)
        if not self._ending and any(end.status for end in self._ends.values()):
            self._ending, self._ask_at = True, time.monotonic() + _TOGETHER_S

    def _do_due(self, now: float) -> None:
        if now >= self._ask_at:
            # Without a channel (MUSTER_EXEC=1), or when a harness of ours hangs.
            self._ask_at, self._kill_at = _NEVER, now + _ABORT_S
            self._stopped = {run.host.name for run in self._living}
            self._stop(signal.SIGTERM)
        if now >= self._kill_at:
            self._kill_at = _NEVER
            for run in self._living:
                run.kill()

    def _stop(self, number: int) -> None:
        for run in self._living:
            run.stop(number)
