"""The writer of one stream, in front of readers that are slow, stuck, or gone."""

import fcntl
import os
import threading
import time

import pytest

from muster.launch import console
from muster.launch.console import Console

PATIENCE_S = 10


@pytest.fixture
def pipe():
    """Return the two ends of a pipe that holds 4 KiB."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    yield read, write
    os.close(write)
    os.close(read)


def made(fd: int, path) -> Console:
    writer = Console(fd, str(path))
    writer.start()
    return writer


def test_a_slow_reader_gets_everything(pipe, tmp_path):
    """What fits in the queue arrives whole and in order, however slowly it is read."""
    read, write = pipe
    data = os.urandom(200_000)
    got = bytearray()

    def slowly() -> None:
        while len(got) < len(data):
            got.extend(os.read(read, 5000))

    reader = threading.Thread(target=slowly)
    reader.start()
    writer = made(write, tmp_path / "overflow")
    for place in range(0, len(data), 1000):
        writer.put(data[place : place + 1000])
    writer.close(PATIENCE_S)
    reader.join(PATIENCE_S)
    assert bytes(got) == data
    assert not (tmp_path / "overflow").exists()


def test_a_target_that_never_blocks_gets_everything(tmp_path):
    """A stream that somebody has set to non-blocking is waited for all the same."""
    read, write = os.pipe2(os.O_NONBLOCK)
    os.set_blocking(read, True)
    data = os.urandom(300_000)
    writer = made(write, tmp_path / "overflow")
    writer.put(data)
    got = bytearray()
    while len(got) < len(data):
        got.extend(os.read(read, 5000))
    writer.close(PATIENCE_S)
    assert bytes(got) == data
    os.close(read)
    os.close(write)


def test_a_stuck_reader_holds_nobody(pipe, tmp_path, monkeypatch):
    """Nobody reads: putting goes on at once, and what does not fit is in the file, in order."""
    monkeypatch.setattr(console, "_QUEUE", 100_000)
    _, write = pipe
    writer = made(write, tmp_path / "logs" / "overflow")
    lines = [b"%06d %s\n" % (number, b"x" * 92) for number in range(5000)]
    before = time.monotonic()
    for line in lines:
        writer.put(line)
    assert time.monotonic() - before < 2
    writer.close(0.2)
    kept = (tmp_path / "logs" / "overflow").read_bytes().splitlines(keepends=True)
    assert len(set(kept) & set(lines)) > 3900
    assert lines[-1] in kept


def test_the_log_tells_of_a_gap(pipe, tmp_path, monkeypatch):
    """A reader that comes back finds a line that says how much it has missed, and where it is."""
    monkeypatch.setattr(console, "_QUEUE", 20_000)
    read, write = pipe
    path = tmp_path / "overflow"
    writer = made(write, path)
    for number in range(1000):
        writer.put(b"%06d %s\n" % (number, b"x" * 92))
    missed = path.stat().st_size
    got = bytearray()

    def read_all() -> None:
        while data := os.read(read, 65536):
            got.extend(data)
            if b"back again" in got:
                return

    reader = threading.Thread(target=read_all)
    reader.start()
    assert writer.flush(PATIENCE_S)
    writer.put(b"back again\n")
    reader.join(PATIENCE_S)
    told = f"[muster] the log was read too slowly: {missed:,} bytes of output are in {path} instead"
    assert f"\n{told}\nback again\n".encode() in bytes(got)


def test_no_place_for_the_file(pipe, monkeypatch):
    """Without a file the gap is told as lost, and nobody waits either."""
    monkeypatch.setattr(console, "_QUEUE", 2_000)
    read, write = pipe
    writer = made(write, "")
    for _ in range(200):
        writer.put(b"x" * 99 + b"\n")
    got = bytearray()

    def read_all() -> None:
        while b"bytes of output are lost\n" not in got:
            got.extend(os.read(read, 65536))

    reader = threading.Thread(target=read_all, daemon=True)
    reader.start()
    assert writer.flush(PATIENCE_S)
    writer.close(PATIENCE_S)
    reader.join(PATIENCE_S)
    assert not reader.is_alive()


def test_a_reader_that_has_gone_is_no_trouble(tmp_path):
    """When the other end is closed, output is dropped and closing does not wait."""
    read, write = os.pipe()
    os.close(read)
    writer = made(write, tmp_path / "overflow")
    for _ in range(100):
        writer.put(b"x" * 10_000)
    before = time.monotonic()
    writer.close(PATIENCE_S)
    assert time.monotonic() - before < 2
    os.close(write)
