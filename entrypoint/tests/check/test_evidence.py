import threading

import pytest

from muster.check.evidence import once
from muster.check.finding import Here
from muster.settings import read_settings


@pytest.fixture
def here(make_job) -> Here:
    """Return what the checks of a plain job look at."""
    return Here(make_job(), read_settings({}), {}, 1, "fast")


def test_several_that_ask_at_once_cause_one_look(here):
    """The first takes it, the others wait for it; another name is another look."""
    begun, release, looks = threading.Event(), threading.Event(), []

    def find() -> int:
        looks.append(1)
        begun.set()
        release.wait(10)
        return 7

    found = []
    threads = [
        threading.Thread(target=lambda: found.append(once(here, "a", find))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    assert once(here, "b", lambda: 8) == 8
    release.set()
    for thread in threads:
        thread.join(10)
    assert (found, looks) == ([7] * 4, [1])


def test_a_look_that_fails_is_not_kept(here):
    """Who asks next tries again."""

    def fail() -> int:
        raise OSError("busy")

    with pytest.raises(OSError, match="busy"):
        once(here, "a", fail)
    assert once(here, "a", lambda: 5) == 5
