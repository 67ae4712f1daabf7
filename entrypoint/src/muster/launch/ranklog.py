"""One rank's whole output, in files. Effects: writes files, and moves full ones aside."""

from __future__ import annotations

import os

from muster.log import say

_LARGEST = 256 * 1024 * 1024
"""Bytes of one file; with the one that was moved aside a stream has at most twice that."""


class RankLog:
    """A file that takes bytes as they came: no prefix, nothing thinned out.

    A full one becomes PATH.1 and the one before that is dropped. Where the disk is full or
    closed to us, that is said once, and the job goes on.
    """

    def __init__(self, path: str, largest: int = _LARGEST) -> None:
        self.path = path
        self._largest = largest
        self._fd: int | None = None
        self._size = 0
        self._broken = False

    def write(self, data: bytes) -> None:
        """Appends `data`. Never raises."""
        if self._broken:
            return
        try:
            if self._fd is None:
                self._open()
            elif self._size + len(data) > self._largest:
                self.close()
                os.replace(self.path, f"{self.path}.1")
                self._open()
            self._append(data)
        except OSError as error:
            self._broken = True
            say(f"{self.path} can't be written: {error.strerror}; the log goes on without it")

    def close(self) -> None:
        """Lets go of the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> None:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, 0o644)
        self._size = os.fstat(self._fd).st_size

    def _append(self, data: bytes) -> None:
        assert self._fd is not None
        view = memoryview(data)
        while view:
            done = os.write(self._fd, view)
            self._size += done
            view = view[done:]
