"""XID errors while the ranks run: taken from the watcher, logged, kept. Effects: a process, lines in the log."""

from __future__ import annotations

import selectors
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from muster.check.gpu.presence import why_absent
from muster.check.gpu.xid import Event
from muster.launch.xids import CHECK, Xid, fatal, weigh
from muster.log import say
from muster.settings import Settings

if TYPE_CHECKING:
    import subprocess

_AWAIT_S = 0.5
"""How long after a rank's failure the error behind it may be told."""
_MOST = 100
"""Events that are logged and kept: a program may make thousands."""


class Watching(Protocol):
    """A watcher, as check/gpu/watch.py has it."""

    registered: tuple[int, ...]

    def fileno(self) -> int:
        """Readable when there is something to take."""

    def take(self) -> tuple[Event, ...] | None:
        """What has come; None once the watcher has ended."""

    def stop(self) -> None:
        """Ends the watcher."""

    @property
    def processes(self) -> dict[int, subprocess.Popen[bytes]]:
        """Its process, by pid."""


class Alarm:
    """What the GPUs of this host tell while its ranks run.

    Args:
        watcher: None where there is nothing to be watched.
        severity: what the user makes of gpu.xid: warn, fail, or nothing.
    """

    def __init__(self, watcher: Watching | None = None, severity: str = "") -> None:
        self.xids: list[Xid] = []
        self._watcher = watcher
        self._severity = severity
        self._selector: selectors.BaseSelector | None = None
        self._await_until: float | None = None

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Lets `selector` call back with what is told."""
        if self._watcher:
            self._selector = selector
            selector.register(self._watcher, selectors.EVENT_READ, self._hear)

    @property
    def fatal(self) -> Xid | None:
        """The error for which the job ends."""
        return fatal(self.xids)

    @property
    def processes(self) -> dict[int, subprocess.Popen[bytes]]:
        """The watcher's, by pid."""
        return self._watcher.processes if self._watcher else {}

    def expect(self) -> None:
        """A rank has failed: if a GPU has made it fail, that is told soon."""
        if self._await_until is None:
            self._await_until = time.monotonic() + _AWAIT_S

    def next_due(self) -> float | None:
        """Until when what is behind a failure may be told, on the monotonic clock; None when all is known."""
        if self._await_until is None or not self._watcher or self.fatal:
            return None
        return self._await_until if time.monotonic() < self._await_until else None

    def record(self, host: str) -> tuple[dict[str, Any], ...]:
        """All that was told, as the run's record has it."""
        return tuple(xid.record(host) for xid in self.xids)

    def close(self) -> None:
        """Nothing is watched any more. Takes a second at most; can be called twice."""
        if self._watcher:
            if self._selector:
                self._selector.unregister(self._watcher)
            self._watcher.stop()
            self._watcher = None

    def _hear(self) -> None:
        assert self._watcher is not None
        events = self._watcher.take()
        if events is None:
            if not self.fatal:
                had = "no longer" if self._watcher.registered else "not"
                say(f"{CHECK}: XID errors are {had} watched: NVML tells of none")
            self.close()
            return
        for event in events:
            self._note(weigh(event, self._severity))

    def _note(self, xid: Xid) -> None:
        # However many there were, the one that ends the job is not missed.
        if len(self.xids) < _MOST or (xid.ends and not self.fatal):
            self.xids.append(xid)
            say(xid.meaning.headline)
            if len(self.xids) == _MOST:
                say(f"{CHECK}: these were {_MOST}: further ones are not shown")


def set_alarm(settings: Settings, env: Mapping[str, str], dev: str = "/dev") -> Alarm:
    """Begins to watch the GPUs; on hosts without one, and where it is switched off, nothing is started.

    Args:
        settings: whether checks are wanted, and this one.
        env: of the job's programs.
        dev: where device files are.
    """
    severity = settings.severities.get(CHECK, "")
    if settings.check == "off" or severity == "off" or why_absent(env, dev):
        return Alarm()
    from muster.check.gpu.watch import Watch  # noqa: PLC0415  (where there is a GPU)

    try:
        return Alarm(Watch(env), severity)
    except OSError as error:
        say(f"{CHECK}: XID errors are not watched: {error.strerror}")
        return Alarm()
