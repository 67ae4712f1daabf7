import threading
import time

import pytest

from muster.check.finding import Check, Finding, Here, passed
from muster.check.running import Running
from muster.errors import CheckError
from muster.settings import read_settings


@pytest.fixture
def here(make_job) -> Here:
    """Return what the checks of a plain job look at."""
    return Here(make_job(), read_settings({}), {}, 1, "fast")


def run(here: Here, *checks: Check, **severities: str):
    named = {name.replace("_", "."): value for name, value in severities.items()}
    return {one.name: one for one in Running(checks, here, named).results()}


def check(name: str, look, timeout_s: float = 5.0) -> Check:
    return Check(name, "fast", "something", look, timeout_s=timeout_s)


def raises(error: Exception):
    def look(_: Here) -> Finding:
        raise error

    return look


def test_all_look_at_once(here):
    """Each in a thread of its own: the whole takes as long as the slowest."""
    meet = threading.Barrier(3, timeout=5)

    def look(_: Here) -> Finding:
        meet.wait()
        return passed("met")

    found = run(here, *(check(f"a.{number}", look) for number in range(3)))
    assert [one.evidence for one in found.values()] == ["met"] * 3


def test_one_that_never_answers_costs_its_time_and_no_more(here):
    """It is UNKNOWN, never a PASS, and the others have theirs."""
    stop = threading.Event()

    def hang(_: Here) -> Finding:
        stop.wait(30)
        return passed("late")

    began = time.monotonic()
    found = run(here, check("a.hangs", hang, 0.3), check("a.well", lambda _: passed("well"), 0.3))
    assert time.monotonic() - began < 3
    stop.set()
    assert (found["a.hangs"].status, found["a.well"].status) == ("UNKNOWN", "PASS")
    assert found["a.hangs"].evidence == "it has not answered within 0.3 s"


def test_a_check_that_breaks_ends_no_job(here):
    """What it can't look at is UNKNOWN; a CheckError of its own is a FAIL."""
    found = run(
        here,
        check("a.breaks", raises(KeyError("x"))),
        check("a.fails", raises(CheckError("lost", "replace it"))),
    )
    assert (found["a.breaks"].status, found["a.breaks"].evidence) == ("UNKNOWN", "KeyError: 'x'")
    assert (found["a.fails"].status, found["a.fails"].remedy) == ("FAIL", "replace it")


@pytest.mark.parametrize(
    ("status", "wanted", "then"),
    [
        ("WARN", "fail", "FAIL"),
        ("FAIL", "warn", "WARN"),
        ("PASS", "fail", "PASS"),
        ("SKIP", "fail", "SKIP"),
        ("UNKNOWN", "fail", "UNKNOWN"),
    ],
)
def test_a_users_severity(here, status, wanted, then):
    """It changes what a WARN or FAIL does, and nothing else."""
    found = run(here, check("a.b", lambda _: Finding(status, "seen")), a_b=wanted)
    assert found["a.b"].status == then


def test_texts_are_bounded(here):
    """A check can't fill the channel or the log."""
    found = run(here, check("a.b", lambda _: Finding("WARN", "x" * 10_000, "y" * 10_000)))
    assert (len(found["a.b"].evidence), len(found["a.b"].remedy)) == (400, 400)


def test_what_is_known_so_far(here):
    """Without a wait: those that have answered, and those whose time is over."""
    stop, answered = threading.Event(), threading.Event()

    def hang(_: Here) -> Finding:
        stop.wait(30)
        return passed("late")

    def answer(_: Here) -> Finding:
        answered.set()
        return passed("well")

    checks = (check("a.well", answer), check("a.hangs", hang, 30), check("a.over", hang, 0))
    running = Running(checks, here, {})
    assert answered.wait(10)
    while len(found := running.so_far()) < 2:
        time.sleep(0.001)
    stop.set()
    assert [(one.name, one.status) for one in found] == [("a.well", "PASS"), ("a.over", "UNKNOWN")]
