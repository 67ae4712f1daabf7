"""One program that runs here for another host, as ssh would run it. Effects: a process, its pipes.

It has this host's own environment, no stdin, and a session of its own. Its output is told in
pieces, and no more is read than the other side has taken: a launcher that doesn't read holds the
program up, not the channel.
"""

from __future__ import annotations

import base64
import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping

from muster.channel.wire import Message
from muster.errors import SIGNAL_BASE

_WINDOW = 256 * 1024
"""Bytes that may be on their way."""
_PIECE = 48 * 1024
_LINGER_S = 1.0
"""How long what the program has left behind may hold its output open."""
_NOT_STARTED = 127


def shell() -> str:
    """The shell that runs a command; ssh takes the user's, which has no name in many containers."""
    return "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


class Spawned:
    """A program for another host.

    Args:
        command: for a shell, exactly as ssh would be given it.
        env: its environment.
        tell: takes `output` and `exited` messages, still without their addressee.
        selector: calls back when there is output.
    """

    def __init__(
        self,
        command: str,
        env: Mapping[str, str],
        tell: Callable[[Message], None],
        selector: selectors.BaseSelector,
    ) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._tell = tell
        self._selector = selector
        self._unread: dict[int, int] = {}
        """The open pipes, with the number of their stream."""
        self._away = 0
        self._kill_at: float | None = None
        self._close_at: float | None = None
        self.told = False
        """Whether its end has been told: nothing more comes of it."""
        try:
            self.process = subprocess.Popen(
                [shell(), "-c", os.fsencode(command)],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._tell_end(_NOT_STARTED, f"can't be started: {error}")
            return
        for number, stream in enumerate((self.process.stdout, self.process.stderr), start=1):
            assert stream is not None
            fd = os.dup(stream.fileno())
            stream.close()
            os.set_blocking(fd, False)
            self._unread[fd] = number
        self._listen(on=True)

    def taken(self, size: int) -> None:
        """The other side has taken so many bytes."""
        full = self._away >= _WINDOW
        self._away -= size
        if full and self._away < _WINDOW:
            self._listen(on=True)

    def end(self, grace: float) -> None:
        """Asks it and what it has started to end, and kills them after `grace` seconds."""
        if self.process is None or self.told:
            return
        self._signal(signal.SIGTERM)
        self._kill_at = time.monotonic() + grace

    def look(self) -> None:
        """Notices its end, and does what is due. After each turn of the loop."""
        if self.process is None or self.told:
            return
        now = time.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self._signal(signal.SIGKILL)
        if self.process.returncode is None:
            return
        if self._unread and self._close_at is None:
            self._close_at = now + _LINGER_S
        if self._unread and self._close_at is not None and now < self._close_at:
            return
        # What it left running goes as well: nobody else knows of it.
        self._signal(signal.SIGKILL)
        code = self.process.returncode
        self._tell_end(code if code >= 0 else SIGNAL_BASE - code, "")

    def next_due(self) -> float | None:
        """When `look` has something to do, on the monotonic clock."""
        if self.told:
            return None
        return min((at for at in (self._kill_at, self._close_at) if at is not None), default=None)

    def close(self) -> None:
        """Forgets its output."""
        self._listen(on=False)
        for fd in self._unread:
            os.close(fd)
        self._unread.clear()

    def _listen(self, *, on: bool) -> None:
        for fd in self._unread:
            if on:
                self._selector.register(fd, selectors.EVENT_READ, lambda fd=fd: self._read(fd))
            else:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(fd)

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, _PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(fd)
            os.close(fd)
            del self._unread[fd]
            return
        text = base64.b64encode(data).decode()
        self._tell({"type": "output", "stream": self._unread[fd], "data": text})
        self._away += len(data)
        if self._away >= _WINDOW:
            self._listen(on=False)

    def _signal(self, number: int) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def _tell_end(self, status: int, why: str) -> None:
        self.told = True
        self.close()
        self._tell({"type": "exited", "status": status, "why": why})
