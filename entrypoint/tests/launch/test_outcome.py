import signal
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.launch.outcome import LauncherEnd, decide
from muster.model import ErrorRecord, Outcome, RankEnd

LAUNCHER = LauncherEnd("torchrun", 1, ("ChildFailedError",))


def end(rank: int, code: int, time: float = 10.0, error: str = "", **changes) -> RankEnd:
    """One rank's end; `error` is an exception as `Type: message`."""
    if error:
        kind, _, message = error.partition(": ")
        changes["error"] = ErrorRecord(kind, message, f"Traceback of {error}", time, 1, 0)
    return RankEnd(rank, rank, 100 + rank, code, time, **changes)


def outcome(ends: Sequence[RankEnd], expected: int | None = None, stop: int = 0) -> Outcome:
    count = len(ends) if expected is None else expected
    return decide("algo-1", ends, LAUNCHER, expected=count, stop_signal=stop)


def test_all_good():
    """When every rank ended with 0 the job did, whatever the launcher says of itself."""
    ends = [end(0, 0), end(1, 0)]
    assert outcome(ends) == Outcome(0, None, tuple(ends), 0)


@pytest.mark.parametrize("code", [1, 3, 33, 70, 78, 127, 255])
def test_the_scripts_status_passes_through(code: int):
    """A script's own status is the container's, also where the harness has the same number."""
    result = outcome([end(0, 0), end(1, code)])
    assert result.status == code
    assert result.cause
    assert (result.cause.kind, result.cause.rank, result.cause.host) == ("user", 1, "algo-1")


@pytest.mark.parametrize("number", [1, 2, 9, 15, 31, 33, 34, 35, 64])
def test_any_signal(number: int):
    """A rank that a signal killed gives 128 and the signal, also where the signal has no name."""
    result = outcome([end(0, -number, stderr_tail=("last line",))])
    assert result.status == 128 + number
    assert result.cause
    assert result.cause.kind == "signal"
    assert result.cause.headline.startswith("the script was killed by ")
    assert str(number) in result.cause.headline
    assert result.cause.detail == "last line"


@pytest.mark.parametrize(
    ("number", "name", "word"),
    [
        (signal.SIGKILL, "SIGKILL", "memory"),
        (signal.SIGBUS, "SIGBUS", "/dev/shm"),
        (signal.SIGSEGV, "SIGSEGV", "Native code"),
        (signal.SIGABRT, "SIGABRT", "Native code"),
    ],
)
def test_common_signals_are_explained(number: int, name: str, word: str):
    """A death by a well-known signal is named, and comes with what to do."""
    cause = outcome([end(0, -number)]).cause
    assert cause
    assert name in cause.headline
    assert word in cause.remedy


def test_an_exception_speaks():
    """An uncaught exception is the reason, with its traceback as the place."""
    cause = outcome([end(0, 1, error="ValueError: bad label 7", stderr_tail=("noise",))]).cause
    assert cause
    assert cause.headline == "ValueError: bad label 7"
    assert cause.detail == "Traceback of ValueError: bad label 7"


@pytest.mark.parametrize("code", [1, 2])
def test_stderr_speaks_without_an_exception(code: int):
    """For the codes of Python and argparse the last line on stderr is the reason."""
    tail = ("usage: train.py [-h]", "train.py: error: unrecognized arguments: --lr 1 ")
    cause = outcome([end(0, code, stderr_tail=tail)]).cause
    assert cause
    assert cause.headline == "train.py: error: unrecognized arguments: --lr 1"
    assert cause.detail == "\n".join(tail)


@pytest.mark.parametrize(("code", "tail"), [(33, ("a warning",)), (1, ())])
def test_a_bare_status_is_said(code: int, tail: tuple[str, ...]):
    """A status that the script chose itself is the reason; stderr is no more than the place."""
    cause = outcome([end(0, code, stderr_tail=tail)]).cause
    assert cause
    assert cause.headline == f"the script ended with status {code}"
    assert cause.detail == "\n".join(tail)


def test_the_earliest_failure_is_the_cause():
    """Of several failures the first one counts, by when the exception rose."""
    slow = end(0, 1, time=11.0, error="ValueError: first")
    slow = RankEnd(**{**slow.__dict__, "time": 30.0})
    result = outcome([slow, end(1, 7, time=12.0), end(2, 9, time=20.0)])
    assert result.cause
    assert (result.cause.rank, result.status) == (0, 1)


def test_a_rank_that_we_ended_is_not_the_cause():
    """A rank that died of our signal is no cause, though it was over first."""
    ours = end(0, -15, time=10.0, signalled=15, signalled_time=9.0)
    result = outcome([ours, end(1, 3, time=11.0)])
    assert result.cause
    assert (result.cause.rank, result.status) == (1, 3)


def test_an_error_before_our_signal_is_real():
    """An exception that rose before we signalled is the rank's own, though it ended after."""
    raised = end(0, 1, time=8.5, error="ValueError: mine", signalled=15, signalled_time=9.0)
    raised = RankEnd(**{**raised.__dict__, "time": 9.5})
    result = outcome([raised, end(1, 3, time=8.9)])
    assert result.cause
    assert result.cause.rank == 0


@pytest.mark.parametrize(
    ("raised_at", "code", "killed", "status"),
    [
        (8.5, -15, False, 1),  # dying of its error when our signal came
        (8.5, -9, True, 1),
        (9.5, -15, False, 143),  # its error is how it took our signal
        (8.5, -11, False, 139),  # a crash on the way out is its own
    ],
)
def test_our_signal_on_a_rank_that_is_dying(raised_at, code, killed, status):
    """Python takes a while to end after an exception: our signal in that while isn't the status."""
    raised = end(
        0, code, time=raised_at, error="ValueError: mine", signalled=15, signalled_time=9.0
    )
    raised = RankEnd(**{**raised.__dict__, "time": 9.6, "killed": killed})
    cause = outcome([raised]).cause
    assert cause
    assert (cause.headline, cause.status) == ("ValueError: mine", status)


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: [../gloo/pair.cc:534] Connection closed by peer [10.0.0.2]:29501",
        "DistBackendError: NCCL error: remote process exited or there was a network error",
        "RuntimeError: Broken pipe",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "RuntimeError: ncclRemoteError: A call failed possibly due to a network error",
    ],
)
def test_an_echo_is_not_the_cause(message: str):
    """A rank that only lost its connection to another is no cause, however early it says so."""
    real = end(1, 1, time=12.0, error="ValueError: bad label 7")
    for echo in (
        end(0, 1, time=11.0, error=message),
        end(0, 1, time=11.0, stderr_tail=("Traceback", message)),
    ):
        result = outcome([echo, real])
        assert result.cause
        assert result.cause.headline == "ValueError: bad label 7"


def test_an_echo_alone_is_the_cause():
    """Where nobody has a better reason, the lost connection is the reason."""
    result = outcome([end(0, 1, error="RuntimeError: Connection closed by peer"), end(1, 0)])
    assert result.cause
    assert result.cause.headline == "RuntimeError: Connection closed by peer"


@pytest.mark.parametrize(("code", "status"), [(-15, 143), (-9, 137), (1, 1)])
def test_only_ranks_that_we_ended(code: int, status: int):
    """When all that failed did so at our word, the status is still theirs, and not 0."""
    ends = [end(0, code, time=11.0, signalled=15, signalled_time=10.0), end(1, 0)]
    result = outcome(ends, stop=15)
    assert result.status == status
    assert result.stop_signal == 15


def test_a_rank_stopped_by_us_is_said_so():
    """A rank that we ended is told as stopped, not killed, and needs no advice about memory."""
    stopped = end(0, -9, time=11.0, signalled=15, signalled_time=10.0)
    cause = outcome([stopped], stop=15).cause
    assert cause
    assert cause.headline.startswith("the script was stopped by SIGKILL")
    assert cause.remedy == ""


def test_a_stop_that_all_ranks_used_well():
    """Ranks that saved and ended with 0 after a stop make a good end."""
    ends = [end(0, 0, signalled=15, signalled_time=9.0), end(1, 0)]
    assert outcome(ends, stop=15) == Outcome(0, None, tuple(ends), 15)


@pytest.mark.parametrize(("number", "status"), [(15, 143), (2, 130)])
def test_a_stop_before_all_ranks_had_begun(number: int, status: int):
    """A stop that came while ranks were starting is a stop, not a launcher's failure."""
    result = outcome([end(0, 0)], expected=2, stop=number)
    assert result.status == status
    assert result.cause
    assert result.cause.kind == "signal"


@pytest.mark.parametrize(
    ("code", "how"), [(1, "with status 1"), (0, "with status 0"), (-9, "by SIGKILL (signal 9)")]
)
@pytest.mark.parametrize("begun", [0, 1])
def test_a_launcher_that_ends_before_its_ranks_began(code: int, how: str, begun: int):
    """Too few ranks and none failed: the launcher is the cause, with its last words, status 76."""
    launcher = LauncherEnd("torchrun", code, ("usage", "no such option"))
    result = decide("algo-1", [end(i, 0) for i in range(begun)], launcher, expected=2)
    assert result.status == 76
    assert result.cause
    assert (result.cause.kind, result.cause.rank) == ("launch", None)
    assert result.cause.headline == f"torchrun ended {how} when {begun} of 2 ranks had begun"
    assert result.cause.detail == "usage\nno such option"


@pytest.mark.parametrize("code", [0, -15, 143])
def test_a_launcher_that_leaves_its_ranks(code: int):
    """A launcher that ends before its ranks, which we then end, is the cause, and not 0."""
    launcher = LauncherEnd("torchrun", -9, ("killed",), left_ranks=True)
    ended = end(0, code, time=11.0, signalled=15, signalled_time=10.0)
    result = decide("algo-1", [ended], launcher, expected=1)
    assert result.status == 76
    assert result.cause
    assert (result.cause.kind, result.cause.detail) == ("launch", "killed")
    assert "SIGKILL" in result.cause.headline


def test_a_real_failure_counts_more_than_the_launchers():
    """A rank that failed by itself is the cause though the launcher left the others behind."""
    launcher = LauncherEnd("torchrun", 1, (), left_ranks=True)
    ended = end(0, -15, time=11.0, signalled=15, signalled_time=10.0)
    result = decide("algo-1", [ended, end(1, 7, time=9.0)], launcher, expected=2)
    assert (result.status, result.cause and result.cause.rank) == (7, 1)


def test_an_exception_speaks_though_a_signal_ended_it():
    """Where native code aborts while Python dies of an exception, the exception is the reason."""
    result = outcome([end(0, -6, error="ValueError: bad label 7")])
    assert result.status == 134
    assert result.cause
    assert result.cause.headline == "ValueError: bad label 7"


def test_a_failed_rank_counts_more_than_a_missing_one():
    """A rank that failed is the cause though others never began."""
    assert outcome([end(0, 5)], expected=4).status == 5


def test_the_place_is_of_a_readable_length():
    """Of a long stderr the last thirty lines are told."""
    cause = outcome([end(0, 33, stderr_tail=tuple(map(str, range(100))))]).cause
    assert cause
    assert cause.detail.splitlines() == [str(number) for number in range(70, 100)]


moments = st.floats(0, 100)
texts = st.sampled_from(["", "ValueError: x", "RuntimeError: connection closed by peer", "E: ☃"])


@st.composite
def rank_ends(draw) -> list[RankEnd]:
    """Ends of up to six ranks: good, failed, killed, at our word or not, with an error or not."""
    ends = []
    for rank in range(draw(st.integers(0, 6))):
        signalled = draw(st.sampled_from([0, 15, 9]))
        made = end(
            rank,
            draw(st.sampled_from([0, 1, 2, 33, 255]) | st.integers(-64, -1)),
            draw(moments),
            draw(texts),
            signalled=signalled,
            signalled_time=draw(moments) if signalled else 0.0,
            stderr_tail=tuple(draw(st.lists(texts.filter(bool), max_size=3))),
        )
        ends.append(made)
    return ends


def is_ours(end: RankEnd) -> bool:
    at = end.error.time if end.error else end.time
    return bool(end.signalled) and at >= end.signalled_time


def is_echo(end: RankEnd) -> bool:
    said = end.error.headline if end.error else "".join(end.stderr_tail)
    return "connection closed by peer" in said


launchers = st.builds(
    LauncherEnd,
    st.just("torchrun"),
    st.integers(-64, 255),
    left_ranks=st.sampled_from([False, False, True]),
)


@given(rank_ends(), launchers, st.integers(1, 6), st.sampled_from([0, 2, 15]))
def test_never_0_when_a_rank_failed(
    ends: list[RankEnd], launcher: LauncherEnd, expected: int, stop: int
):
    """Whatever happened: 0 if and only if all expected ranks ended well, else a true status."""
    result = decide("h", ends, launcher, expected=expected, stop_signal=stop)
    good = all(end.code == 0 for end in ends) and len(ends) >= expected and not launcher.left_ranks
    assert (result.status == 0) == good
    assert (result.cause is None) == good
    assert 0 <= result.status <= 255
    assert result.ranks == tuple(ends)
    if result.cause:
        assert result.cause.status == result.status
        assert result.cause.headline


@given(rank_ends(), launchers, st.sampled_from([0, 15]))
def test_the_cause_is_a_real_failure(ends: list[RankEnd], launcher: LauncherEnd, stop: int):
    """The cause is a rank that failed by itself, the earliest of these, if there is one."""
    result = decide("h", ends, launcher, expected=len(ends), stop_signal=stop)
    own = [end for end in ends if end.code and not is_ours(end)]
    if own:
        assert result.cause
        (named,) = [end for end in own if end.rank == result.cause.rank]
        assert result.status == named.status
        real = [end for end in own if not is_echo(end)]
        assert named in (real or own)
    elif result.cause and not launcher.left_ranks:
        assert result.cause.rank in [end.rank for end in ends if end.code]
