"""One of the container's own streams, written by a thread of its own.

Whoever reads it may be slow, or gone to sleep (a log driver, `docker run | less`). The pump
never waits for it: what does not fit in a bounded queue goes to a file, and a line in the log
says how much and where. Effects: writes to a descriptor, and to that file when it has to.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque

_QUEUE = 8 * 1024 * 1024
"""Bytes that may wait. A reader that pauses for a moment loses nothing."""
_CHUNK = 64 * 1024
_LARGEST_FILE = 1024 * 1024 * 1024
"""Bytes that the file may take: output/data is uploaded, and a disk is finite."""


class Console(threading.Thread):
    """Writes blocks to `fd` in the order of `put`. Safe to call from several threads.

    Args:
        fd: the stream.
        overflow: where the file for what does not fit would be; empty for none.
        label: stands before the line that tells of it.
    """

    def __init__(self, fd: int, overflow: str, label: bytes = b"[muster] ") -> None:
        super().__init__(name=f"muster-console-{fd}", daemon=True)
        self._fd = fd
        self._overflow = overflow
        self._label = label
        self._blocks: deque[bytes] = deque()
        self._rest = memoryview(b"")
        """What is being written."""
        self._waiting = 0
        self._diverted = 0
        """Bytes in the file since the log was last told of it."""
        self._lost = 0
        self._in_file = 0
        self._progress = time.monotonic()
        self._closing = False
        self._changed = threading.Condition()

    def put(self, block: bytes) -> None:
        """Takes a block of whole lines, or of one line's part. Never waits for the reader."""
        with self._changed:
            full = self._waiting + len(block) > _QUEUE
            # Once behind, it stays so until half of the queue is free: fewer, longer gaps.
            if full or (self._diverted and self._waiting > _QUEUE // 2):
                self._divert(block)
                return
            if self._diverted:
                self._append(self._tell())
            self._append(block)
            self._changed.notify_all()

    def flush(self, patience: float) -> bool:
        """Waits until all is written. False when the reader takes nothing for `patience` seconds."""
        with self._changed:
            self._progress = time.monotonic()
            while self._waiting and self.is_alive():
                left = self._progress + patience - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def close(self, patience: float) -> None:
        """Ends when all is written, or when the reader has taken nothing for `patience` seconds.

        What is left then goes to the file; the last bytes that were on their way may be in both.
        """
        with self._changed:
            self._closing = True
            if self._diverted:
                self._append(self._tell())
            self._changed.notify_all()
        if self.flush(patience):
            return
        with self._changed:
            for block in (bytes(self._rest), *self._blocks):
                self._divert(block)
            self._blocks.clear()

    def run(self) -> None:
        while True:
            with self._changed:
                while not self._blocks:
                    if self._closing:
                        return
                    self._changed.wait()
                # All of it in one go: a thousand small blocks are one write.
                self._rest = memoryview(b"".join(self._blocks))
                self._blocks.clear()
            while self._rest:
                self._write()

    def _append(self, block: bytes) -> None:
        self._blocks.append(block)
        self._waiting += len(block)

    def _write(self) -> None:
        # Whole lines: where the reader stops in the middle, the file has the line from its start.
        chunk = bytes(self._rest[:_CHUNK])
        chunk = chunk[: chunk.rfind(b"\n") + 1] or chunk
        try:
            done = os.write(self._fd, chunk)
        except BlockingIOError:
            select.select([], [self._fd], [])
            return
        except OSError:
            done = len(self._rest)  # Nobody reads it any more: dropped.
        with self._changed:
            self._rest = self._rest[done:]
            self._waiting -= done
            self._progress = time.monotonic()
            self._changed.notify_all()

    def _divert(self, block: bytes) -> None:
        self._diverted += len(block)
        if not self._overflow or self._in_file + len(block) > _LARGEST_FILE:
            self._lost += len(block)
            return
        try:
            os.makedirs(os.path.dirname(self._overflow), exist_ok=True)
            with open(self._overflow, "ab") as file:
                file.write(block)
            self._in_file += len(block)
        except OSError:
            self._lost += len(block)

    def _tell(self) -> bytes:
        kept, lost = self._diverted - self._lost, self._lost
        self._diverted = self._lost = 0
        told = []
        if kept:
            told.append(f"{kept:,} bytes of output are in {self._overflow} instead")
        if lost:
            told.append(f"{lost:,} bytes of output are lost")
        text = f"the log was read too slowly: {', '.join(told)}"
        return b"\n" + self._label + text.encode("utf-8", "replace") + b"\n"
