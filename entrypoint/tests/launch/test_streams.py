"""The log pump over real pipes, into a real file."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.launch.ranklog import RankLog
from muster.launch.streams import LogPump, Source

PATIENCE_S = 10
MIB = 1024 * 1024


class Log:
    """A pump and the file that it fills."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.pump = LogPump()
        self._mine: list[int] = []

    def source(self, prefix: bytes = b"", target: int | None = None) -> tuple[Source, int]:
        """A pipe that the pump reads, and the end to write to."""
        read, write = os.pipe()
        self._mine.append(write)
        return self.pump.add(read, self.target if target is None else target, prefix), write

    def end(self, *writes: int) -> None:
        for write in writes:
            self._mine.remove(write)
            os.close(write)

    @property
    def content(self) -> bytes:
        return self.path.read_bytes()

    def wait_for(self, content: bytes) -> None:
        """Wait until the file holds exactly `content`."""
        deadline = time.monotonic() + PATIENCE_S
        while self.content != content and time.monotonic() < deadline:
            time.sleep(0.002)
        assert self.content == content

    def finish(self) -> bytes:
        """End every pipe; the whole file."""
        self.end(*list(self._mine))
        if not self.pump.is_alive():
            self.pump.start()
        assert self.drain()
        self.close()
        return self.content

    def drain(self) -> bool:
        """Whether every pipe has ended; what they held has been written then."""
        ended = self.pump.drain(PATIENCE_S)
        self.pump.flush(PATIENCE_S)
        return ended

    def close(self) -> None:
        if self.pump.is_alive():
            self.pump.close()
        for write in self._mine:
            os.close(write)
        self._mine = []


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Log]:
    """Return a log whose pump does not run yet: what is written meanwhile arrives in one read."""
    log = Log(tmp_path / "log")
    yield log
    log.close()
    os.close(log.target)


@pytest.fixture
def log(idle: Log) -> Log:
    """Return a log whose pump runs."""
    idle.pump.start()
    return idle


BYTES = bytes(range(256)) + b"\n\r\n\n\xf0\x9f\x8e\x93\xed\xa0\x80\x1b[31m\0"


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_bytes_are_preserved(log, step: int):
    """NUL, invalid UTF-8, colours, blank lines: without a prefix what comes in goes out."""
    _, write = log.source()
    for start in range(0, len(BYTES), step):
        os.write(write, BYTES[start : start + step])
    assert log.finish() == BYTES


def test_a_character_in_two_reads(log):
    """A character that is split between two reads is whole again in the log."""
    _, write = log.source(b"[h 1] ")
    first, rest = "🎓".encode()[:2], "🎓".encode()[2:]
    os.write(write, b"a" + first)
    log.wait_for(b"[h 1] a" + first)
    os.write(write, rest + b"\n")
    assert log.finish() == "[h 1] a🎓\n".encode()


def test_every_line_has_the_prefix(log):
    """Each line is labelled, also an empty one and one that came in pieces; indentation stays."""
    _, write = log.source(b"[h 1] ")
    for piece in (b"one\n  tw", b"o\n\n", b"three\nfour"):
        os.write(write, piece)
    assert log.finish() == b"[h 1] one\n[h 1]   two\n[h 1] \n[h 1] three\n[h 1] four"


def test_any_lines_in_any_pieces(log):
    """However the bytes are cut on their way, each line is labelled once and kept."""

    @given(
        content=st.lists(st.sampled_from([b"a", b"bc", b"\n", b" ", b"\xff", b"\0"]), max_size=30),
        steps=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    )
    def check(content: list[bytes], steps: list[int]) -> None:
        whole = b"".join([*content, b"\n"])
        before = len(log.content)
        _, write = log.source(b"[h 1] ")
        position = 0
        while position < len(whole):
            step = steps[position % len(steps)]
            os.write(write, whole[position : position + step])
            position += step
        log.end(write)
        assert log.drain()
        expected = b"".join(b"[h 1] " + line for line in whole.splitlines(keepends=True))
        assert log.content[before:] == expected

    check()


def test_an_unfinished_line_is_shown_soon(log):
    """A prompt without an end of line is shown after about 0.1 s, and its line goes on after it."""
    _, write = log.source(b"[h 1] ")
    begun = time.monotonic()
    os.write(write, b"Password: ")
    log.wait_for(b"[h 1] Password: ")
    assert 0.1 <= time.monotonic() - begun < 2
    os.write(write, b"ok\nnext\n")
    log.wait_for(b"[h 1] Password: ok\n[h 1] next\n")


def test_a_whole_line_does_not_wait(log):
    """A finished line is not held back by the unfinished one behind it."""
    _, write = log.source(b"[h 1] ")
    os.write(write, b"done\nnot yet")
    begun = time.monotonic()
    while not log.content and time.monotonic() - begun < PATIENCE_S:
        time.sleep(0.002)
    assert log.content.startswith(b"[h 1] done\n")
    log.wait_for(b"[h 1] done\n[h 1] not yet")


def test_progress_bars_are_drawn(log):
    """A bar that redraws itself with CR is shown as it goes, under its label, byte for byte."""
    _, write = log.source(b"[h 1] ")
    os.write(write, b"\r 10%")
    log.wait_for(b"[h 1] \r[h 1]  10%")
    os.write(write, b"\r 20%")
    log.wait_for(b"[h 1] \r[h 1]  10%\r[h 1]  20%")
    os.write(write, b"\n")
    assert log.finish() == b"[h 1] \r[h 1]  10%\r[h 1]  20%\n"


def test_cr_lf_is_one_line_end(idle):
    """Lines that end as on Windows stay lines, with one prefix each."""
    _, write = idle.source(b"[h 1] ")
    os.write(write, b"one\r\ntwo\r\n")
    assert idle.finish() == b"[h 1] one\r\n[h 1] two\r\n"


def test_a_line_without_end_is_bounded_in_memory(log):
    """3 MB without an end of line pass through whole, and no more than a part is ever held."""
    source, write = log.source(b"[h 1] ")
    block = b"x" * 65536
    longest = 0
    for _ in range(3 * MIB // len(block)):
        os.write(write, block)
        longest = max(longest, len(source.pending))
    assert log.finish() == b"[h 1] " + b"x" * 3 * MIB
    assert longest <= 2 * MIB


def test_the_tail_is_kept(log):
    """The last 8 KiB are at hand for the report, as lines; undecodable bytes don't disturb."""
    source, write = log.source(b"[h 1] ")
    os.write(write, b"".join(b"line %d\n" % number for number in range(3000)))
    os.write(write, b"\n  Val\xffueError: x\n")
    log.finish()
    assert len(source.tail) == 8192
    assert source.tail_lines()[-2:] == ("line 2999", "  Val\ufffdueError: x")


def test_a_short_tail_is_whole(log):
    """What is shorter than the tail is kept whole, also when it came in pieces, without prefix."""
    source, write = log.source(b"[h 1] ")
    for piece in (b"a\n", b"b", b"c\n"):
        os.write(write, piece)
    log.finish()
    assert source.tail_lines() == ("a", "bc")


def test_a_muted_source_is_only_kept(log):
    """A muted source is not shown, but can still be asked for its last lines."""
    source, write = log.source()
    source.muted = True
    os.write(write, b"noise\n")
    assert log.finish() == b""
    assert source.tail_lines() == ("noise",)


def test_order_within_a_source(log):
    """Ten thousand lines of one source stay in order and whole."""
    _, write = log.source(b"[h 1] ")
    lines = [b"line %d of many\n" % number for number in range(10_000)]
    data = b"".join(lines)
    for start in range(0, len(data), 4093):
        os.write(write, data[start : start + 4093])
    assert log.finish() == b"".join(b"[h 1] " + line for line in lines)


def test_lines_of_two_sources_are_not_mixed(idle):
    """What two sources have finished stands in the log line by line, each under its label."""
    writes = [idle.source(prefix)[1] for prefix in (b"", b"[h 1] ")]
    for number in range(500):
        for write in writes:
            os.write(write, b"%d\n" % number)
    lines = idle.finish().splitlines()
    numbers = [b"%d" % number for number in range(500)]
    assert [line for line in lines if not line.startswith(b"[h 1] ")] == numbers
    assert [line[6:] for line in lines if line.startswith(b"[h 1] ")] == numbers


def test_an_unfinished_line_is_not_written_into(log):
    """Another source's line begins on a line of its own, and the unfinished one goes on below."""
    _, one = log.source(b"[h 1] ")
    _, two = log.source(b"")
    os.write(one, b"loading")
    log.wait_for(b"[h 1] loading")
    os.write(two, b"loss=0.5\n")
    log.wait_for(b"[h 1] loading\nloss=0.5\n")
    os.write(one, b" done\n")
    log.wait_for(b"[h 1] loading\nloss=0.5\n[h 1]  done\n")


def test_a_progress_bar_is_not_written_into(log):
    """A bar that ends in a CR shares no line of the log with another source's."""
    _, one = log.source(b"[h 1] ")
    _, two = log.source(b"")
    os.write(one, b"50%\r")
    log.wait_for(b"[h 1] 50%\r")
    os.write(two, b"loss=0.5\n")
    assert b"loss=0.5" in log.finish().split(b"\n")


def test_two_targets_do_not_disturb_each_other(log, tmp_path):
    """An unfinished line on stdout puts no line end into stderr."""
    other = os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT)
    _, out = log.source(b"")
    _, err = log.source(b"", target=other)
    os.write(out, b"no end")
    log.wait_for(b"no end")
    os.write(err, b"line\n")
    assert log.finish() == b"no end"
    assert (tmp_path / "other").read_bytes() == b"line\n"
    os.close(other)


def test_drain_waits_for_the_end(log):
    """Draining is over when all that was written has been shown, and every pipe has ended."""
    _, write = log.source()
    threading.Timer(0.1, lambda: (os.write(write, b"late\n"), log.end(write))).start()
    assert log.drain()
    assert log.content == b"late\n"


def test_drain_gives_up_on_a_held_pipe(log):
    """A process that keeps a pipe open does not keep the harness: draining says that it does."""
    _, write = log.source()
    os.write(write, b"shown\n")
    begun = time.monotonic()
    assert not log.pump.drain(0.2)
    assert 0.2 <= time.monotonic() - begun < 2
    assert log.content == b"shown\n"


def test_drain_can_leave_sources_out(log):
    """Draining does not wait for the sources that are meant to stay."""
    kept, write = log.source()
    _, other = log.source()
    os.write(other, b"x\n")
    log.end(other)
    assert log.pump.drain(PATIENCE_S, (kept,))
    os.write(write, b"y\n")
    assert log.finish() == b"x\ny\n"


def test_closing_shows_what_is_left(log):
    """An unfinished line of a pipe that is still open is shown at the latest when the pump ends."""
    _, write = log.source(b"[h 1] ")
    os.write(write, b"last words")
    log.pump.close()
    assert not log.pump.is_alive()
    assert log.content == b"[h 1] last words"


def test_ended_pipes_are_closed(log):
    """A pipe that has ended is closed: a job with many short processes runs out of nothing."""
    pipes = set()
    for _ in range(20):
        source, write = log.source()
        pipes.add(os.fstat(source.fd).st_ino)
        os.write(write, b"x\n")
        log.end(write)
    assert log.drain()
    still_open = set()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            still_open.add(os.fstat(int(fd)).st_ino)
    assert not pipes & still_open


def test_a_reader_that_has_gone_is_no_trouble(log):
    """When nobody reads one target any more, its lines are dropped and the others still come."""
    read, gone = os.pipe()
    os.close(read)
    _, lost = log.source(target=gone)
    _, write = log.source()
    os.write(lost, b"x\n" * 1000)
    os.write(write, b"here\n")
    assert log.finish() == b"here\n"
    os.close(gone)


def test_a_line_of_the_harness_is_not_written_into_another(log, capfd):
    """The harness's own lines begin on a line of their own, and never overtake a rank's."""
    _, write = log.source(b"[h 1] ", target=2)
    os.write(write, b"whole\nhalf a")
    deadline = time.monotonic() + PATIENCE_S
    shown = ""
    while "half a" not in shown and time.monotonic() < deadline:
        time.sleep(0.01)
        shown += capfd.readouterr().err
    log.pump.interject(b"[muster] a line\n")
    log.pump.flush(PATIENCE_S)
    shown += capfd.readouterr().err
    assert shown == "[h 1] whole\n[h 1] half a\n[muster] a line\n"


def test_a_bar_is_thinned_out_and_its_last_state_comes(log):
    """Of a thousand states a second a few are shown, the newest at the latest after 0.3 s."""
    _, write = log.source()
    for number in range(1000):
        os.write(write, b"%3d %%\r" % number)
    deadline = time.monotonic() + PATIENCE_S
    while not log.content.endswith(b"999 %\r") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert log.content.endswith(b"999 %\r")
    assert log.content.count(b"\r") < 20


def test_all_of_it_is_in_the_file(log, tmp_path):
    """The file of a stream has each byte, also of a bar, and also where the stream is muted."""
    read, write = os.pipe()
    source = log.pump.add(
        read, log.target, b"[h 1] ", RankLog(str(tmp_path / "logs" / "rank-1.out"))
    )
    source.muted = True
    data = b"1 %\r2 %\r3 %\n" * 1000 + bytes(range(256))
    os.write(write, data)
    os.close(write)
    assert log.finish() == b""
    assert (tmp_path / "logs" / "rank-1.out").read_bytes() == data
