from __future__ import annotations

import select
import threading
import time

import pytest

from muster.channel import names
from muster.channel.names import Resolver, is_address, normalised


@pytest.mark.parametrize(
    ("address", "same"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::FFFF:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("2001:DB8::1", "2001:db8::1"),
    ],
)
def test_one_text_for_one_address(address, same):
    """An IPv4 address is the same on a socket of both families; a scope does not count."""
    assert normalised(address) == same
    assert is_address(address)


@pytest.mark.parametrize("text", ["", "algo-1", "10.0.0", "10.0.0.1.example", "::ffff:x"])
def test_a_name_is_no_address(text):
    """What has to be looked up is not taken for an address."""
    assert not is_address(text)


@pytest.fixture
def slow(monkeypatch):
    """A name server that answers when the test lets it; returns the event and what was asked."""
    asked: list[str] = []
    go = threading.Event()

    def look_up(name: str):
        asked.append(name)
        if name.startswith("slow"):
            go.wait(10)
        return (f"address of {name}",)

    monkeypatch.setattr(names, "look_up", look_up)
    yield go, asked
    go.set()


def collect(resolver: Resolver, done) -> None:
    deadline = time.monotonic() + 5
    while not done():
        assert time.monotonic() < deadline
        select.select([resolver], [], [], 0.1)
        resolver.collect()


def test_what_is_known_is_not_looked_up(slow):
    """MUSTER_ADDRESSES gives an address, at once; or another name, which is looked up."""
    _, asked = slow
    resolver, got = Resolver({"algo-1": "10.0.0.1", "algo-2": "other"}), []
    resolver.ask("algo-1", got.append)
    assert got == [("10.0.0.1",)]
    resolver.ask("algo-2", got.append)
    collect(resolver, lambda: len(got) == 2)
    assert got[1] == ("address of other",)
    assert asked == ["other"]


def test_a_name_is_looked_up_once_for_all_who_ask(slow):
    """A thousand questions while one is out are one look-up, and a bounded number of answers."""
    go, asked = slow
    resolver, got = Resolver({}), []
    for _ in range(1000):
        resolver.ask("slow", got.append)
    go.set()
    collect(resolver, lambda: got)
    assert asked == ["slow"]
    assert 1 <= len(got) <= 64


def test_who_calls_does_not_wait_for_those_who_are_missing(slow):
    """Hundreds of dead names leave threads for a host that is there."""
    go, _ = slow
    resolver, got = Resolver({}), []
    for number in range(300):
        resolver.sweep(f"slow-{number}", lambda _: None)
    resolver.ask("quick", got.append)
    collect(resolver, lambda: got)
    assert got == [("address of quick",)]
    assert not go.is_set()
