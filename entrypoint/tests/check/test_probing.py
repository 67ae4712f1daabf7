import socket
import threading
import time
from collections import Counter

import pytest

from muster.check import probing
from muster.check.probing import MANY, SPREAD, Listener, call_all, peers_of

TOKEN = "0123456789abcdef"


@pytest.fixture
def listener():
    """Return a listener that answers as algo-2."""
    made = Listener("127.0.0.2")
    made.serve("algo-2", TOKEN)
    yield made
    made.close()


@pytest.fixture
def mute():
    """Return a place where a program listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


def book(**places) -> dict[str, tuple[str, int]]:
    return {name.replace("_", "-"): (each[0], each[1]) for name, each in places.items()}


def test_few_hosts_all_call_all():
    """Each calls every other one, and never itself."""
    hosts = [f"algo-{number}" for number in range(1, MANY + 1)]
    for host in hosts:
        assert sorted([host, *peers_of(host, hosts)]) == sorted(hosts)


@pytest.mark.parametrize("count", [MANY + 1, 100, 512])
def test_many_hosts_call_a_spread(count):
    """Each calls some others, near and far, and is called as often."""
    hosts = [f"algo-{number}" for number in range(1, count + 1)]
    called = Counter(peer for host in hosts for peer in peers_of(host, hosts))
    assert set(called.values()) == {SPREAD}
    for host in (hosts[0], hosts[-1]):
        assert len({host, *peers_of(host, hosts)}) == SPREAD + 1


def test_a_call_is_answered(listener):
    """The time is told, and the listener knows from where it was called."""
    found = call_all("algo-1", TOKEN, book(algo_2=(listener.address, listener.port)))
    assert found.failed == {}
    assert 0 < found.reached["algo-2"] < 1000
    assert listener.callers == {"algo-1": "127.0.0.1"}


def test_the_port_is_open_for_the_check_only():
    """Afterwards nobody listens there."""
    made = Listener("127.0.0.1")
    made.serve("algo-2", TOKEN)
    place = (made.address, made.port)
    made.close()
    found = call_all("algo-1", TOKEN, {"algo-2": place})
    assert found.failed == {"algo-2": "Connection refused"}


def test_a_listener_that_is_closed_before_it_answers():
    """It had nothing to say: the check was ended."""
    made = Listener("127.0.0.1")
    made.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((made.address, made.port), 1)


def test_a_stranger_gets_no_answer(listener):
    """Who does not know the token is not counted, and gets nothing."""
    for line in (b"wrong algo-9\n", b"\n", b"x" * 1000, b"\xff\xfe\n", TOKEN.encode() + b"\n"):
        with socket.create_connection((listener.address, listener.port), 5) as call:
            call.sendall(line)
            # What was not read yet makes the end a reset.
            try:
                assert call.recv(100) == b""
            except ConnectionResetError:
                continue
    assert listener.callers == {}


def test_a_stranger_who_says_nothing_keeps_nobody_out(listener):
    """The next caller is answered meanwhile."""
    with socket.create_connection((listener.address, listener.port), 5):
        found = call_all("algo-1", TOKEN, book(algo_2=(listener.address, listener.port)))
    assert list(found.reached) == ["algo-2"]


def test_a_greeting_in_pieces(listener):
    """A line may come in several packets."""
    with socket.create_connection((listener.address, listener.port), 5) as call:
        call.sendall(TOKEN.encode())
        time.sleep(0.05)  # So that the packets are two; either way it is answered.
        call.sendall(b" algo-1\n")
        assert call.recv(100) == f"{TOKEN} algo-2\n".encode()


def test_more_callers_than_it_keeps(listener, monkeypatch):
    """The oldest that has said nothing is dropped."""
    monkeypatch.setattr(probing, "_BACKLOG", 2)
    silent = [socket.create_connection((listener.address, listener.port), 5) for _ in range(3)]
    assert silent[0].recv(1) == b""
    for call in silent:
        call.close()


def test_another_host_at_the_address(listener):
    """A wrong bridge: somebody of the job answers, but not the one that was called."""
    found = call_all("algo-1", TOKEN, book(algo_3=(listener.address, listener.port)))
    assert found.failed == {"algo-3": "another program answers there"}


def test_another_program_at_the_address(listener):
    """A stranger on the port is not counted as the host."""
    found = call_all("algo-1", "another", book(algo_2=(listener.address, listener.port)))
    assert found.failed == {"algo-2": "another program answers there"}


def test_a_program_that_talks_without_end():
    """It is cut short."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            call, _ = server.accept()
            with call:
                try:
                    while True:
                        call.sendall(b"x" * 4096)
                except OSError:
                    return

        threading.Thread(target=talk, daemon=True).start()
        found = call_all("algo-1", TOKEN, book(algo_2=server.getsockname()))
    assert found.failed == {"algo-2": "another program answers there"}


def test_who_does_not_answer_keeps_the_others_from_nothing(listener, mute, monkeypatch):
    """It costs its time, and the answers of others are there."""
    monkeypatch.setattr(probing, "EACH_S", 0.2)
    began = time.monotonic()
    found = call_all("algo-1", TOKEN, book(algo_3=mute, algo_2=(listener.address, listener.port)))
    assert time.monotonic() - began < 2
    assert list(found.reached) == ["algo-2"]
    assert found.failed == {"algo-3": "no answer within 0.2 s"}


def test_the_time_of_all_is_bounded(mute, monkeypatch):
    """However many there are that don't answer."""
    monkeypatch.setattr(probing, "EACH_S", 0.2)
    monkeypatch.setattr(probing, "ALL_S", 0.5)
    monkeypatch.setattr(probing, "_AT_ONCE", 2)
    peers = {f"algo-{number}": mute for number in range(2, 22)}
    began = time.monotonic()
    found = call_all("algo-1", TOKEN, peers)
    assert time.monotonic() - began < 2
    assert sorted(found.failed) == sorted(peers)


def test_no_peers():
    """A host that nobody else has joined calls nobody."""
    assert call_all("algo-1", TOKEN, {}).reached == {}


def test_an_address_of_another_host():
    """It can't be listened on."""
    with pytest.raises(OSError, match="assign requested address"):
        Listener("192.0.2.1")
