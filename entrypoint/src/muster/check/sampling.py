"""Reads a bounded part of a folder's files, and takes the time. Effects: reads files, by threads.

A FIFO is never opened: opening one takes data from whoever should have it, or waits for ever.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

BLOCK = 2**20
PART = 16 * BLOCK
READERS = 4
"""As many as a rank's data loaders; one reader alone says little of a network file system."""


@dataclass(frozen=True)
class Limits:
    """How much a sample may take of one folder."""

    seconds: float
    bytes: int
    list_seconds: float = 3.0
    list_files: int = 100_000


LIGHT = Limits(2.0, 32 * BLOCK, 2.0, 2_000)
"""Where each read, and each page of a list, is a request to S3."""
FULL = Limits(5.0, 512 * BLOCK)


@dataclass(frozen=True)
class Sample:
    """What was read. Sizes in bytes."""

    files: int
    """That were found, as far as the list went."""
    total: int
    """Of these."""
    whole: bool
    """Whether the list came to its end."""
    read: int = 0
    seconds: float = 0.0
    """That all readers together took."""
    parts: int = 0
    cached: int = 0
    """Parts that were in this host's memory, though the kernel was asked to forget them."""


def take(folder: str, limits: Limits) -> Sample:
    """The sample of a folder. Raises OSError: of a file that can't be read."""
    files, whole = _list(folder, limits)
    sizes = [size for _, size in files]
    parts = _spread(files, limits.bytes)
    if not parts:
        return Sample(len(files), sum(sizes), whole)
    reading = _Reading(parts, limits)
    reading.run()
    if reading.error:
        raise reading.error
    return Sample(
        len(files), sum(sizes), whole, reading.read, reading.seconds, reading.done, reading.cached
    )


def _list(folder: str, limits: Limits) -> tuple[list[tuple[str, int]], bool]:
    """Regular files with their sizes, and whether these are all. Links are left alone."""
    deadline = time.monotonic() + limits.list_seconds
    files: list[tuple[str, int]] = []
    for entry in _walk(folder):
        if len(files) >= limits.list_files or time.monotonic() > deadline:
            return files, False
        files.append((entry.path, entry.stat(follow_symlinks=False).st_size))
    return files, True


def _walk(folder: str) -> Iterator[os.DirEntry[str]]:
    folders = [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                # By the type in the directory: a FIFO is not even looked at.
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry


def _spread(files: list[tuple[str, int]], most: int) -> list[tuple[str, int, int]]:
    """Parts from all over the files, of about `most` bytes together: path, offset, length. Pure."""
    step = max(1, -(-sum(size for _, size in files) // most))
    parts = []
    first = wanted = 0
    for path, size in files:
        behind = first - (-size // PART)
        for number in range(wanted, behind, step):
            offset = (number - first) * PART
            parts.append((path, offset, min(PART, size - offset)))
            wanted = number + step
        first = behind
    return parts


class _Reading:
    """Readers at work on a list of parts, until it, the time or the bytes are at an end."""

    def __init__(self, parts: list[tuple[str, int, int]], limits: Limits) -> None:
        self.read = self.done = self.cached = 0
        self.seconds = 0.0
        self.error: OSError | None = None
        self._left = iter(parts)
        self._lock = threading.Lock()
        self._limits = limits
        self._began = time.monotonic()

    def run(self) -> None:
        readers = [threading.Thread(target=self._work, daemon=True) for _ in range(READERS)]
        self._began = time.monotonic()
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        self.seconds = time.monotonic() - self._began

    def _work(self) -> None:
        buffer = bytearray(BLOCK)
        while not self._is_over():
            with self._lock:
                part = next(self._left, None)
            if part is None:
                return
            try:
                self._read_part(*part, memoryview(buffer))
            except OSError as error:
                self.error = self.error or error

    def _is_over(self) -> bool:
        spent = time.monotonic() - self._began >= self._limits.seconds
        return spent or self.read >= self._limits.bytes or self.error is not None

    def _read_part(self, path: str, offset: int, length: int, buffer: memoryview) -> None:
        # Not blocking: what was a file when the list was made may have become a FIFO.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.posix_fadvise(number, offset, length, os.POSIX_FADV_DONTNEED)
            cached = _is_in_memory(number, offset)
            end = offset + length
            while offset < end and not self._is_over():
                count = os.preadv(number, [buffer[: min(BLOCK, end - offset)]], offset)
                if not count:
                    break
                offset += count
                with self._lock:
                    self.read += count
        finally:
            os.close(number)
        with self._lock:
            self.done += 1
            self.cached += cached


def _is_in_memory(number: int, offset: int) -> bool:
    """Whether a read there needs no storage (RWF_NOWAIT, https://man7.org/linux/man-pages/man2/readv.2.html)."""
    try:
        return os.preadv(number, [bytearray(1)], offset, os.RWF_NOWAIT) > 0
    except OSError:
        return False  # It would have to wait, or the file system can't tell.
