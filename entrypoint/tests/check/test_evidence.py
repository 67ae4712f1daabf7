import threading

import pytest

from muster.check.evidence import once
from muster.check.finding import Here
from muster.settings import read_settings


@pytest.fixture
def here(make_job) -> Here:
    """Return what two checks of a host share."""
    return Here(make_job(), read_settings({}), {}, 1, "fast")


def test_two_checks_look_once(here):
    """The second waits for what the first is finding out."""
    looked, go, answers = [], threading.Event(), []

    def look() -> str:
        looked.append(1)
        go.wait(10)
        return "seen"

    threads = [
        threading.Thread(target=lambda: answers.append(once(here, "a", look))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join(10)
    assert answers == ["seen", "seen"]
    assert len(looked) == 1


def test_names_are_apart(here):
    """What is kept by one name is not found by another."""
    assert [once(here, "a", lambda: 1), once(here, "b", lambda: 2)] == [1, 2]


def test_a_look_that_fails_is_made_again(here):
    """An error is nobody's answer."""

    def fail() -> int:
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        once(here, "a", fail)
    assert once(here, "a", lambda: 3) == 3
