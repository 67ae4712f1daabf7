"""The pause at the end of a rank that has threads of gloo."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
import types
from collections.abc import Iterator

import pytest

from muster.training.gloo import let_threads_finish

PR_SET_NAME = 15
PAUSE_S = 0.3


@pytest.fixture
def gloo_thread() -> Iterator[None]:
    """A thread with the name that torch gives gloo's."""
    named, over = threading.Event(), threading.Event()

    def live() -> None:
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"pt_gloo_runloop", 0, 0, 0)
        named.set()
        over.wait()

    thread = threading.Thread(target=live)
    thread.start()
    named.wait()
    yield
    over.set()
    thread.join()
    # Python's thread is over a moment before the system's.
    while os.path.exists(f"/proc/self/task/{thread.native_id}"):
        time.sleep(0.01)


@pytest.fixture
def torch(monkeypatch) -> None:
    """Torch counts as loaded."""
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))


def paused(monkeypatch, setting: str) -> float:
    """How long the end takes with the setting."""
    monkeypatch.setenv("MUSTER_GLOO_PAUSE_S", setting)
    started = time.monotonic()
    let_threads_finish()
    return time.monotonic() - started


@pytest.mark.usefixtures("gloo_thread", "torch")
def test_threads_of_gloo_are_waited_for(monkeypatch):
    """The pause is the setting's, the default where that can't be read, and none with 0."""
    assert paused(monkeypatch, str(PAUSE_S)) >= PAUSE_S
    assert paused(monkeypatch, "soon") >= 0.1
    assert paused(monkeypatch, "0") < 0.1


@pytest.mark.usefixtures("torch")
def test_without_threads_of_gloo_nothing_is_waited_for(monkeypatch):
    """A GPU job, or one without a process group, ends at once."""
    assert paused(monkeypatch, "5") < 1


@pytest.mark.usefixtures("gloo_thread")
def test_without_torch_nothing_is_waited_for(monkeypatch):
    """Other programs below a rank are left alone."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert paused(monkeypatch, "5") < 1
