import threading
import time

from muster.check.bounded import Late, all_within


def fail() -> int:
    raise OSError(5, "Input/output error")


def test_each_has_its_own_answer():
    """In the order of the looks, with the exception of the one that fails."""
    found = all_within(5, {"a": lambda: 1, "b": fail, "c": lambda: 3})
    assert list(found) == ["a", "b", "c"]
    assert (found["a"], found["c"]) == (1, 3)
    assert isinstance(found["b"], OSError)


def test_one_that_hangs_costs_the_limit_and_hides_no_other():
    """Who does not answer is late; the others' answers are there."""
    stop = threading.Event()
    began = time.monotonic()
    found = all_within(0.3, {"dead": lambda: stop.wait(30), "well": lambda: True})
    assert time.monotonic() - began < 3
    stop.set()
    assert found["well"] is True
    assert isinstance(found["dead"], Late)
    assert str(found["dead"]) == "it has not answered within 0.3 s"


def test_more_looks_than_workers():
    """All are looked at, by as many threads as are allowed."""
    busy, most, lock = 0, 0, threading.Lock()

    def look() -> int:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.001)
        with lock:
            busy -= 1
        return 1

    found = all_within(20, dict.fromkeys(range(50), look), workers=3)
    assert sum(found.values()) == 50
    assert most <= 3


def test_nothing_to_look_at():
    """It is at once done."""
    assert all_within(30, {}) == {}
