import pytest

from muster.launch.policy import make_policy
from muster.launch.ranklog import RankLog


@pytest.mark.parametrize(
    ("mode", "prefixes", "shown"),
    [
        ("rank0-raw", (b"", b"[algo-2 1] "), (True, True)),
        ("prefix", (b"[algo-2 0] ", b"[algo-2 1] "), (True, True)),
        ("rank0", (b"", b"[algo-2 1] "), (True, False)),
        ("failed", (b"", b"[algo-2 1] "), (False, False)),
    ],
)
def test_modes(mode: str, prefixes: tuple[bytes, ...], shown: tuple[bool, ...]):
    """What each mode shows, and with what in front."""
    policy = make_policy(mode, "algo-2", None, "/fallback")
    assert tuple(policy.prefix(rank) for rank in (0, 1)) == prefixes
    assert tuple(policy.shows(rank) for rank in (0, 1)) == shown


@pytest.mark.parametrize(
    ("mode", "chosen", "folder"),
    [
        ("rank0-raw", None, ""),
        ("rank0-raw", "/logs", "/logs"),
        ("rank0", None, "/fallback"),
        ("failed", "/logs", "/logs"),
    ],
)
def test_what_is_hidden_has_files(mode: str, chosen: str | None, folder: str):
    """Files are written where they are asked for, and where the log would hide something."""
    policy = make_policy(mode, "algo-2", chosen, "/fallback")
    file = policy.file(3, "stderr")
    assert (file.path if file else None) == (f"{folder}/rank-3.stderr" if folder else None)


def test_a_full_file_is_moved_aside(tmp_path):
    """A stream has two files at most: the newest bytes are always there."""
    path = tmp_path / "logs" / "rank-0.stdout"
    log = RankLog(str(path), largest=100)
    for number in range(10):
        log.write(b"%d" % number * 40)
    log.close()
    assert path.read_bytes() == b"8" * 40 + b"9" * 40
    assert path.with_suffix(".stdout.1").read_bytes() == b"6" * 40 + b"7" * 40
    assert len(list(path.parent.iterdir())) == 2


def test_a_file_that_cannot_be_written_is_told_once(tmp_path, capfd):
    """The job goes on without it."""
    (tmp_path / "logs").write_text("")
    log = RankLog(str(tmp_path / "logs" / "rank-0.stdout"))
    log.write(b"x")
    log.write(b"x")
    assert capfd.readouterr().err.count("can't be written") == 1
