"""The log pump: every rank's output to the container's own, in whole lines.

A thread of its own, so that neither a slow terminal delays a signal nor a busy
harness delays a rank's print; and a second one for each stream that is written to
(console.py), so that a reader of the log that stops delays nobody. Bytes are never decoded. Output is handled in blocks
of whole lines, not line by line: 300,000 lines must cost next to nothing.
"""

from __future__ import annotations

import os
import selectors
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from muster.launch.console import Console
from muster.launch.progress import Thinner
from muster.launch.ranklog import RankLog

_READ = 256 * 1024
_PARTIAL_S = 0.1
"""How long a line may stay unfinished before it is shown as it is (a prompt, a counter)."""
_LONGEST_PARTIAL = 1024 * 1024
_TAIL = 8 * 1024
_PATIENCE_S = 5.0
"""How long the end of a job waits for a reader of the log that takes nothing."""
_NEVER = float("inf")


@dataclass(eq=False)
class Source:
    """One pipe: where it goes, what stands before its lines, and what was last said on it."""

    fd: int
    target: int
    prefix: bytes
    pending: bytes = b""
    since: float = 0.0
    line_open: bool = False
    muted: bool = False
    """Whether its output is kept for `tail` only."""
    tail: bytes = field(default=b"", repr=False)
    file: RankLog | None = None
    """Where all of it goes as well, as it came."""
    bar: Thinner = field(default_factory=Thinner, repr=False)

    def tail_lines(self) -> tuple[str, ...]:
        """The last lines, decoded for a person to read."""
        text = self.tail.decode("utf-8", "replace")
        return tuple(line for line in text.splitlines() if line.strip())


class LogPump(threading.Thread):
    """Copies pipes to file descriptors until `close`. Safe to call from another thread.

    Args:
        overflow: a folder for what a slow reader of the log can't take, and its files' prefix;
            empty: that is lost.
        label: stands before a line of the pump's own.
    """

    def __init__(self, overflow: str = "", label: bytes = b"[muster] ") -> None:
        super().__init__(name="muster-log-pump", daemon=True)
        self._overflow, self._label = overflow, label
        self._consoles: dict[int, Console] = {}
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._open: dict[int, Source] = {}
        self._ended = threading.Condition(self._lock)
        self._closing = False
        self._on_line: dict[int, Source] = {}

    def add(self, fd: int, target: int, prefix: bytes = b"", file: RankLog | None = None) -> Source:
        """Copies `fd` to `target` from now on, and to `file`.

        The pump owns `fd` and closes it at its end.
        """
        source = Source(fd, target, prefix, file=file)
        os.set_blocking(fd, False)
        self.console(target)
        with self._lock:
            self._open[fd] = source
            self._selector.register(fd, selectors.EVENT_READ, source)
        self._wake()
        return source

    def console(self, target: int) -> Console:
        """The writer of `target`: other lines for it go through it too, so that none overtakes."""
        with self._lock:
            if target not in self._consoles:
                path = self._overflow and f"{self._overflow}-{target}.log"
                self._consoles[target] = Console(target, path, self._label)
                self._consoles[target].start()
            return self._consoles[target]

    def interject(self, block: bytes) -> None:
        """Puts whole lines of the harness's own among those on stderr. Never waits."""
        open_line = self._on_line.pop(2, None)
        if open_line is not None:
            open_line.line_open = False
        self.console(2).put(block if open_line is None else b"\n" + block)

    def drain(self, timeout: float, kept: Collection[Source] = ()) -> bool:
        """Waits until every pipe but `kept` has ended. False when one has not after `timeout`."""
        with self._ended:
            return self._ended.wait_for(lambda: self._only(kept), timeout)

    def flush(self, patience: float) -> None:
        """Waits until what was read is written, or nobody takes it for `patience` seconds."""
        for console in list(self._consoles.values()):
            console.flush(patience)

    def _only(self, kept: Collection[Source]) -> bool:
        return all(source in kept for source in self._open.values())

    def close(self) -> None:
        """Shows what is left and ends the thread."""
        self._closing = True
        self._wake()
        self.join(timeout=5)
        for console in self._consoles.values():
            console.close(_PATIENCE_S)

    def run(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select(self._patience()):
                if key.data is None:
                    os.read(self._wake_read, 4096)
                else:
                    self._read(key.data)
            self._show_stale()
        for source in list(self._open.values()):
            self._read(source)
            self._emit(source, source.bar.release(time.monotonic()))
            self._emit(source, source.pending)

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"\0")
        except BlockingIOError:
            return  # It is awake already.

    def _patience(self) -> float | None:
        """Seconds until the oldest unfinished line or the next state of a bar must be shown."""
        now = time.monotonic()
        waits = [self._due(source, now) for source in list(self._open.values())]
        least = min(waits, default=_NEVER)
        return None if least == _NEVER else least

    @staticmethod
    def _due(source: Source, now: float) -> float:
        partial = source.since + _PARTIAL_S - now if source.pending else _NEVER
        return max(0.0, min(partial, source.bar.due(now)))

    def _read(self, source: Source) -> None:
        try:
            data = os.read(source.fd, _READ)
        except BlockingIOError:
            return
        if not data:
            self._finish(source)
            return
        if source.file:
            source.file.write(data)
        source.tail = (source.tail + data)[-_TAIL:] if len(data) < _TAIL else data[-_TAIL:]
        if not source.pending:
            source.since = time.monotonic()
        data = source.pending + data
        # A CR ends a line as well: it is how a progress bar draws itself anew. Not the
        # last byte, though: half of a CR LF would be taken for a line.
        cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1
        if cut == 0 and len(data) >= _LONGEST_PARTIAL:
            cut = len(data)
        if cut:
            now = time.monotonic()
            self._emit(source, source.bar.thin(data[:cut], now))
            source.since = now
        source.pending = data[cut:]

    def _finish(self, source: Source) -> None:
        self._emit(source, source.bar.release(time.monotonic()))
        self._emit(source, source.pending)
        source.pending = b""
        if source.file:
            source.file.close()
        with self._ended:
            self._selector.unregister(source.fd)
            os.close(source.fd)
            del self._open[source.fd]
            self._ended.notify_all()

    def _show_stale(self) -> None:
        now = time.monotonic()
        for source in list(self._open.values()):
            if self._due(source, now) > 0:
                continue
            # One after the other: behind a bar's CR the label comes again.
            self._emit(source, source.bar.release(now))
            if source.pending and now - source.since >= _PARTIAL_S:
                self._emit(source, source.pending)
                source.pending = b""

    def _emit(self, source: Source, block: bytes) -> None:
        if not block or source.muted:
            return
        out = b""
        before = self._on_line.get(source.target)
        if before is not None and before is not source:
            out = b"\n"  # Another source's line is unfinished: don't write into it.
            before.line_open = False
        if source.prefix:
            head = b"" if source.line_open else source.prefix
            out += head + block[:-1].replace(b"\n", b"\n" + source.prefix) + block[-1:]
        else:
            out += block
        # A CR begins the source's own line anew, but only a LF leaves it to the others.
        source.line_open = block[-1:] not in b"\n\r"
        if block.endswith(b"\n"):
            self._on_line.pop(source.target, None)
        else:
            self._on_line[source.target] = source
        self._consoles[source.target].put(out)
