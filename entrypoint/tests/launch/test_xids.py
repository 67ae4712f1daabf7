import signal
from collections.abc import Sequence

import pytest

from muster.check.gpu.xid import UNAVAILABLE, XID, Event
from muster.launch.evidence import Evidence
from muster.launch.outcome import LauncherEnd, decide
from muster.launch.xids import weigh
from muster.model import ErrorRecord, Outcome, RankEnd

UUID = "GPU-00000003-1111-2222-3333-444444444444"
LAUNCHER = LauncherEnd("torchrun", 1, ("ChildFailedError",))
CUDA = "RuntimeError: CUDA error: unspecified launch failure"
FELL_OFF = f"XID 79: the GPU has fallen off the bus on GPU 3 ({UUID}) of algo-1"
KERNEL = "It is your kernel, not the machine"


def event(number: int, time: float = 10.0, kind: int = XID) -> Event:
    return Event(3, UUID, kind, number, time)


def end(rank: int, code: int, time: float = 10.0, error: str = "", **changes) -> RankEnd:
    """One rank's end; `error` is an exception as `Type: message`."""
    if error:
        kind, _, message = error.partition(": ")
        changes["error"] = ErrorRecord(kind, message, f"Traceback of {error}", time, 1, 0)
    return RankEnd(rank, rank, 100 + rank, code, time, **changes)


def asked(rank: int, at: float, code: int = -signal.SIGTERM) -> RankEnd:
    """Return a rank that the harness has asked to end."""
    return end(rank, code, at + 0.1, signalled=signal.SIGTERM, signalled_time=at)


def outcome(
    ends: Sequence[RankEnd], *events: Event, severity: str = "", expected: int = 2, stop: int = 0
) -> Outcome:
    evidence = Evidence(xids=tuple(weigh(one, severity) for one in events))
    return decide("algo-1", ends, LAUNCHER, expected=expected, stop_signal=stop, evidence=evidence)


def test_hardware_is_the_cause():
    """Ranks that the harness has ended for it end with the GPU's name, status 75, and what to do."""
    result = outcome([asked(0, 10.1), asked(1, 10.1)], event(79))
    assert result.status == 75
    assert result.cause
    assert (result.cause.headline, result.cause.kind) == (FELL_OFF, "check")
    assert (result.cause.host, result.cause.rank, result.cause.time) == ("algo-1", None, 10.0)
    assert (result.cause.asked, result.cause.echo) == (False, False)
    assert result.cause.remedy.startswith("Replace this instance")
    assert "MUSTER_CHECKS=gpu.xid=warn" in result.cause.remedy


@pytest.mark.parametrize("code", [0, 3, 143])
def test_ranks_that_save_when_they_are_asked_don_t_hide_it(code):
    """However they end then: the job is not whole, and the status is the hardware's."""
    result = outcome([asked(0, 10.1, code), asked(1, 10.1, code)], event(79))
    assert (result.status, result.cause and result.cause.headline) == (75, FELL_OFF)


@pytest.mark.parametrize("time", [9.8, 10.2, 5.1, 30.0])
def test_a_rank_that_fails_with_it_is_its_echo(time):
    """A moment before or after; what it has said stands in the detail."""
    result = outcome([end(0, 1, time, CUDA), asked(1, time + 0.1)], event(79))
    assert result.cause
    assert (result.status, result.cause.headline) == (75, FELL_OFF)
    assert result.cause.detail == f"rank 0: {CUDA}"
    assert result.cause.time == min(time, 10.0)


def test_a_rank_that_a_signal_ends_with_it_is_its_echo():
    """NCCL's watchdog aborts the process."""
    result = outcome([end(0, -signal.SIGABRT, 10.2), asked(1, 10.3)], event(79))
    assert result.status == 75
    assert result.cause
    assert result.cause.detail.startswith("rank 0: the script was killed by SIGABRT")


def test_a_rank_that_had_failed_long_before_is_the_cause():
    """What comes when the others are already ending has not made it fail."""
    result = outcome([end(0, 1, 10.0, "ValueError: x"), asked(1, 10.1)], event(79, 16.0))
    assert (result.status, result.cause and result.cause.headline) == (1, "ValueError: x")


def test_ranks_that_had_all_ended_well():
    """A GPU that breaks after them has cost nothing."""
    ends = [end(0, 0), end(1, 0)]
    assert outcome(ends, event(79, 10.5)) == Outcome(0, None, tuple(ends), 0)


def test_ranks_that_have_not_all_begun():
    """It is no launcher's fault that they never do."""
    result = outcome([], event(79))
    assert (result.status, result.cause and result.cause.headline) == (75, FELL_OFF)


def test_a_stop_that_came_first_stays_one():
    """A GPU that breaks while the ranks save is not why they have ended."""
    result = outcome([asked(0, 9.0), asked(1, 9.0, 0)], event(79), stop=signal.SIGTERM)
    assert result.status == 143
    assert result.cause
    assert result.cause.kind == "signal"


def test_a_gpu_that_nobody_can_name():
    """NVML may only say that one is lost."""
    result = outcome([asked(0, 10.1)], Event(-1, "", UNAVAILABLE, 0, 10.0))
    assert result.cause
    assert result.cause.headline.endswith("(GPU_IS_LOST) on a GPU of algo-1")


@pytest.mark.parametrize(
    ("number", "severity", "said"),
    [
        (31, "", f"XID 31 on GPU 3: {KERNEL}"),
        (13, "fail", f"XID 13 on GPU 3: {KERNEL}"),
        (109, "", "XID 109 on GPU 3: It may be the machine"),
        (79, "warn", "XID 79 on GPU 3: Replace this instance"),
    ],
)
def test_what_ends_no_job_explains_a_rank_that_fails(number, severity, said):
    """Its own error stays the cause; the remedy begins with what the GPU has told."""
    result = outcome([end(0, 1, 10.2, CUDA), asked(1, 10.3)], event(number), severity=severity)
    assert (result.status, result.cause and result.cause.headline) == (1, CUDA)
    assert result.cause
    assert result.cause.remedy.startswith(said)


def test_a_hint_leaves_the_other_remedy():
    """What is said of the error itself follows."""
    full = "torch.OutOfMemoryError: CUDA out of memory"
    result = outcome([end(0, 1, 10.2, full), end(1, 0)], event(31))
    assert result.cause
    assert "The GPU's memory is full" in result.cause.remedy
    assert result.cause.remedy.startswith(f"XID 31 on GPU 3: {KERNEL}")


def test_the_heaviest_hint_counts():
    """Where the machine may be to blame, that is said; one hint has room."""
    result = outcome([end(0, 1, 10.2, CUDA)], event(31, 9.0), event(109))
    assert result.cause
    assert result.cause.remedy.startswith("XID 109")
    assert KERNEL not in result.cause.remedy


@pytest.mark.parametrize(
    ("told", "severity"),
    [
        (event(63), ""),
        (event(9999), ""),
        (event(31, 12.0), ""),
        (event(45, 10.5), ""),
        (event(63), "fail"),
    ],
    ids=["note", "unknown", "later", "what-a-killed-program-leaves", "note-as-fail"],
)
def test_what_explains_nothing(told, severity):
    """A note is only logged; what comes after the failure is its consequence."""
    result = outcome([end(0, 1, 10.2, CUDA)], told, severity=severity, expected=1)
    assert (result.status, result.cause and result.cause.headline) == (1, CUDA)
    assert result.cause
    assert result.cause.remedy == ""


def test_an_error_of_a_program_ends_nothing():
    """Ranks that live with it end well."""
    assert outcome([end(0, 0), end(1, 0)], event(31), event(46)).status == 0


def test_severities():
    """Hardware ends the job; with fail also what may be the machine; with warn nothing does."""
    numbers = (79, 109, 31, 63)
    for severity, ending in (("", {79}), ("warn", set()), ("fail", {79, 109})):
        assert {n for n in numbers if weigh(event(n), severity).ends} == ending


def test_the_record():
    """All that a person needs to have the GPU looked at."""
    assert weigh(event(79, 10.12345)).record("algo-1") == {
        "host": "algo-1",
        "gpu": 3,
        "uuid": UUID,
        "type": XID,
        "number": 79,
        "class": "hardware",
        "what": FELL_OFF.removesuffix(" of algo-1"),
        "time": 10.123,
    }
    assert weigh(Event(-1, "", UNAVAILABLE, 0, 1.0)).record("algo-1")["gpu"] is None
