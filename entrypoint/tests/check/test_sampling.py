import errno
import os

import pytest

from muster.check import sampling
from muster.check.sampling import BLOCK, PART, Limits, Sample, take

WIDE = Limits(60.0, 1024 * BLOCK)


@pytest.fixture
def fill(tmp_path):
    """A function that writes files of so many bytes, by name."""

    def write(**sizes: int) -> str:
        for name, size in sizes.items():
            path = tmp_path / "data" / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(size))
        return str(tmp_path / "data")

    return write


def test_a_small_channel_is_read_whole(fill):
    """In folders too, to the last byte."""
    sample = take(fill(a=3 * BLOCK + 7, deep__er__b=5, empty=0), WIDE)
    assert (sample.files, sample.total, sample.whole) == (3, 3 * BLOCK + 12, True)
    assert (sample.read, sample.parts) == (sample.total, 2)
    assert sample.seconds > 0


def test_no_more_than_the_limit_and_from_all_over(fill, monkeypatch):
    """Parts of a large channel: the first and the last files are among them."""
    opened, real = set(), os.open

    def note(path, *rest, **more):
        opened.add(os.path.basename(path))
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", note)
    folder = fill(**{f"f{number:02}": BLOCK for number in range(40)})
    sample = take(folder, Limits(60.0, 10 * BLOCK))
    assert sample.total == 40 * BLOCK
    assert sample.read == 10 * BLOCK
    assert len(opened) == 10


def test_a_large_file_is_read_in_places(fill, monkeypatch):
    """One file alone is no less than many."""
    monkeypatch.setattr(sampling, "PART", 2 * BLOCK)
    sample = take(fill(one=16 * BLOCK), Limits(60.0, 4 * BLOCK))
    assert (sample.files, sample.parts, sample.read) == (1, 2, 4 * BLOCK)


def test_a_large_data_set_is_no_long_list():
    """Parts are picked, not all made: 100,000 files of 1 GB would be millions."""
    files = [(f"f{number}", 10**9) for number in range(100_000)]
    parts = sampling._spread(files, 512 * BLOCK)
    assert 20 <= len(parts) <= 40
    assert parts[0] == ("f0", 0, PART)
    assert parts[-1][0] > "f9"


def test_time_ends_a_slow_one(fill, monkeypatch):
    """A file system that gives little is measured by what it has given."""
    now = [0.0]
    real = os.preadv

    def slow(number, buffers, offset, flags=0):
        now[0] += 0.0 if flags else 1.0
        return real(number, buffers, offset, flags)

    monkeypatch.setattr(sampling.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(os, "preadv", slow)
    sample = take(fill(a=64 * BLOCK), Limits(3.0, 64 * BLOCK))
    assert 3 * BLOCK <= sample.read < 12 * BLOCK
    assert sample.seconds >= 3.0


def test_a_long_list_is_cut(fill):
    """Not all files are counted, and it says so."""
    sample = take(fill(a=1, b=1, c=1), Limits(60.0, BLOCK, list_files=2))
    assert (sample.files, sample.whole) == (2, False)


def test_fifos_and_links_are_left_alone(fill, monkeypatch):
    """Who opens a FIFO takes data from whoever should have it: none is opened or looked at."""
    folder = fill(a=10)
    os.mkfifo(f"{folder}/fifo")
    os.symlink("/", f"{folder}/root")
    monkeypatch.setattr(os, "stat", None)
    sample = take(folder, WIDE)
    assert (sample.files, sample.read) == (1, 10)


def test_an_empty_channel(tmp_path):
    """It gives nothing, and that is no error."""
    (tmp_path / "data").mkdir()
    assert take(str(tmp_path / "data"), WIDE) == Sample(0, 0, whole=True)


@pytest.mark.parametrize(
    "answer", [1, OSError(errno.EAGAIN, "no"), OSError(errno.EOPNOTSUPP, "no")]
)
def test_what_comes_from_memory_is_counted(fill, monkeypatch, answer):
    """A part that is at hand without the storage is none of its speed."""
    real = os.preadv

    def read(number, buffers, offset, flags=0):
        if flags != os.RWF_NOWAIT:
            return real(number, buffers, offset, flags)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(os, "preadv", read)
    sample = take(fill(a=BLOCK, b=BLOCK), WIDE)
    assert sample.cached == (2 if answer == 1 else 0)


def test_the_kernel_is_asked_to_forget(fill, monkeypatch):
    """Each part, before it is read."""
    asked = []
    real = os.posix_fadvise
    monkeypatch.setattr(os, "posix_fadvise", lambda *words: asked.append(words[1:]) or real(*words))
    take(fill(a=PART + 5), WIDE)
    assert sorted(asked) == [(0, PART, os.POSIX_FADV_DONTNEED), (PART, 5, os.POSIX_FADV_DONTNEED)]


@pytest.mark.parametrize("where", ["open", "preadv"])
def test_an_error_is_told(fill, monkeypatch, where):
    """The system's own, of whichever reader met it."""
    folder = fill(a=BLOCK)

    def fail(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, where, fail)
    with pytest.raises(OSError, match="Input/output error"):
        take(folder, WIDE)


def test_no_such_folder():
    """A channel that is not there is an error, and not an empty one."""
    with pytest.raises(FileNotFoundError):
        take("/nowhere/at/all", WIDE)
