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
            ends = _wait(runs, inbox)
            pump.drain(_OUTPUT_S)
    finally:
        pump.close()
    return ends


def _wait(runs: Sequence[HostRun], inbox: Inbox) -> list[HostEnd]:
    begun = time.monotonic()
    ends: dict[str, HostEnd] = {}
    living = list(runs)
    stopped: set[str] = set()
    ending = stopping = False
    kill_at: float | None = None
    ask_at: float | None = None
    while living:
        waits = [at - time.monotonic() for at in (kill_at, ask_at) if at is not None]
        select.select([inbox], [], [], max(0.0, min(waits)) if waits else None)
        for number in inbox.read():
            if number in STOPPING and stopping:
                say("asked again: killing the hosts")
                kill_at = time.monotonic()
            elif number in STOPPING and not ending:
                # They end by themselves now, each in its own time: no host is to blame.
                ending, stopping, kill_at = True, True, time.monotonic() + _STOP_S
                say(f"the hosts have {_STOP_S:.0f} s to end; Ctrl-C again kills them")
                _stop(living, number)
        for run in living:
            name, status = run.host.name, run.poll()
            if status is not None:
                seconds = time.monotonic() - begun
                ends[name] = HostEnd(run.host, status, seconds, name in stopped)
        living = [run for run in living if run.host.name not in ends]
        if not ending and any(end.status for end in ends.values()):
            ending, ask_at = True, time.monotonic() + _TOGETHER_S
        if ask_at is not None and time.monotonic() >= ask_at:
            # Without a channel (MUSTER_EXEC=1), or when a harness of ours hangs.
            ask_at, kill_at = None, time.monotonic() + _ABORT_S
            stopped = {run.host.name for run in living}
            _stop(living, signal.SIGTERM)
        if kill_at is not None and time.monotonic() >= kill_at:
            kill_at = None
            for run in living:
                run.kill()
    return [ends[run.host.name] for run in runs]


def _stop(runs: Sequence[HostRun], number: int) -> None:
    for run in runs:
        run.stop(number)
