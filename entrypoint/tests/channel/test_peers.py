"""The leader and its members over real sockets, each with an address of its own on the loopback."""

from __future__ import annotations

import json
import random
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from muster.channel import dialling
from muster.channel.coordinator import Coordinator
from muster.channel.key import job_key
from muster.channel.leader import Leader, Rules, listen
from muster.channel.member import Member, Route
from muster.channel.message import pack_cause, unpack_cause
from muster.channel.names import Resolver
from muster.channel.peer import Peer
from muster.channel.phases import Limits
from muster.errors import RollCallError

from .conftest import facts, failure

KEY = job_key("job", None)
PATIENCE_S = 10.0


class Net:
    """A job on 127.1.0.x: each host steps when the test lets time pass."""

    def __init__(self, count: int, *, by_name: bool = True, silence: float = 10.0) -> None:
        self.names = [f"algo-{i + 1}" for i in range(count)]
        self.known = {name: f"127.1.0.{i + 1}" for i, name in enumerate(self.names)}
        self.silence = silence
        limits = Limits(rollcall=60, settle=0.1, echo=0.2, ending=2)
        self.coordinator = Coordinator(self.names, limits, time.monotonic())
        listener = listen(0, self.known["algo-1"])
        self.port = listener.getsockname()[1]
        self.leader = Leader(
            "algo-1",
            self.coordinator,
            listener,
            KEY,
            Resolver(self.known),
            Rules(by_name, beat=0.1, silence=silence),
        )
        self.peers: dict[str, Peer] = {"algo-1": self.leader}

    def member(self, name: str, key: bytes = KEY, own: str = "", patience: float = 60.0) -> Member:
        known = self.known | ({name: own} if own else {})
        route = Route("algo-1", self.port, patience, beat=0.1, silence=self.silence)
        member = Member(name, key, Resolver(known), route)
        self.peers[name] = member
        return member

    def join(self, *names: str) -> None:
        for name in names or self.names:
            if name not in self.peers:
                self.member(name)
            self.peers[name].join(facts(*self.names))

    def until(self, done: Callable[[], Any], but: str = "", patience: float = PATIENCE_S) -> None:
        """Let all peers (but one) do what they do until `done`."""
        deadline = time.monotonic() + patience
        peers = [peer for name, peer in self.peers.items() if name != but]
        with selectors.DefaultSelector() as selector:
            for peer in peers:
                selector.register(peer, selectors.EVENT_READ)
            while not done():
                assert time.monotonic() < deadline, "it did not come"
                waits = [peer.patience() for peer in peers]
                selector.select(min([0.05, *(wait for wait in waits if wait is not None)]))
                for peer in peers:
                    peer.turn()

    def until_all_have(self, kind: str, *names: str) -> None:
        self.until(lambda: all(kind in self.kinds(name) for name in names or self.names))

    def kinds(self, name: str) -> list[str]:
        return [message["type"] for message in self.peers[name].directives]

    def verdict(self, name: str):
        found = [m for m in self.peers[name].directives if m["type"] == "verdict"]
        return unpack_cause(found[0]["cause"])

    def close(self) -> None:
        for peer in self.peers.values():
            peer.close()


@pytest.fixture
def net() -> Iterator[Callable[..., Net]]:
    """Return a function that makes a job of so many hosts."""
    nets: list[Net] = []

    def make(count: int = 3, **options: Any) -> Net:
        nets.append(Net(count, **options))
        return nets[-1]

    yield make
    for each in nets:
        each.close()


def call(job: Net, source: str = "127.1.0.2") -> socket.socket:
    """Return a connection to the leader from a certain address."""
    return socket.create_connection(
        (job.known["algo-1"], job.port), timeout=5, source_address=(source, 0)
    )


def answer(job: Net, sock: socket.socket) -> bytes:
    """Return what the leader says, or nothing when it has closed the connection."""
    got: list[bytes] = []
    sock.settimeout(0)

    def come() -> bool:
        try:
            got.append(sock.recv(65536))
        except BlockingIOError:
            return False
        except ConnectionResetError:
            got.append(b"")
        return True

    job.until(come)
    return got[0]


def test_a_job_from_the_roll_call_to_the_end(net):
    """All hosts join, are welcomed, go, end and leave; what one tells reaches all."""
    job = net(3)
    job.join()
    job.until_all_have("welcome")
    for peer in job.peers.values():
        peer.tell({"type": "ready", "launcher": "torchrun"})
    job.until_all_have("go")
    job.peers["algo-3"].tell(
        {"type": "failed", "cause": pack_cause(failure("bad", "algo-3", time=time.time()))}
    )
    job.until_all_have("verdict")
    assert {job.verdict(name).headline for name in job.names} == {"bad"}
    for peer in job.peers.values():
        peer.tell({"type": "reported"})
    job.until_all_have("leave")


def test_a_member_may_come_before_the_leader(net):
    """Who calls too early calls again."""
    job = net(2)
    job.leader.close()
    member = job.member("algo-2")
    member.join(facts(*job.names))
    job.until(lambda: "refuses the connection" in member._reason, but="algo-1")
    listener = listen(job.port, job.known["algo-1"])
    job.leader = Leader(
        "algo-1",
        job.coordinator,
        listener,
        KEY,
        Resolver(job.known),
        Rules(by_name=True, beat=0.1, silence=10),
    )
    job.peers["algo-1"] = job.leader
    job.join("algo-1")
    job.until_all_have("welcome")


def test_a_member_whose_process_dies_is_lost_at_once(net):
    """Its connection ends with it: the others know in a moment."""
    job = net(3)
    job.join()
    job.until_all_have("welcome")
    job.peers.pop("algo-2").close()
    started = time.monotonic()
    job.until_all_have("verdict", "algo-1", "algo-3")
    assert time.monotonic() - started < 1
    assert job.verdict("algo-3").headline == "host algo-2 was lost: its connection was closed"


def test_a_member_that_goes_silent_is_lost(net):
    """A host that is frozen or cut off says nothing any more, and its connection stays."""
    job = net(3, silence=1.0)
    job.join()
    job.until_all_have("welcome")
    started = time.monotonic()
    job.until(lambda: all("verdict" in job.kinds(n) for n in ("algo-1", "algo-3")), but="algo-2")
    assert 0.8 < time.monotonic() - started < 3
    assert "algo-2 was lost: nothing was heard of it" in job.verdict("algo-3").headline


@pytest.mark.parametrize("how", ["dies", "goes-silent"])
def test_without_a_leader_every_member_ends(net, how):
    """The leader's loss ends all others by themselves, with the same reason."""
    job = net(3, silence=1.0)
    job.join()
    job.until_all_have("welcome")
    if how == "dies":
        job.leader.close()
    members = ("algo-2", "algo-3")
    job.until(lambda: all("leave" in job.kinds(n) for n in members), but="algo-1")
    causes = {(job.verdict(name).kind, job.verdict(name).host) for name in members}
    assert causes == {("lost", "algo-1")}


def test_heartbeats_keep_a_quiet_job_alive(net):
    """Hosts that say nothing for longer than the silence are not lost while they live."""
    job = net(2, silence=0.6)
    job.join()
    end = time.monotonic() + 2
    job.until(lambda: time.monotonic() > end)
    assert job.kinds("algo-1") == job.kinds("algo-2") == ["welcome"]


def test_a_stranger_is_not_let_in(net):
    """A host's name does not help from another address than its own."""
    job = net(2)
    sock = call(job, "127.9.9.9")
    sock.sendall(b'{"muster":1,"host":"algo-2","nonce":"00"}\n')
    said = json.loads(answer(job, sock))
    assert "called from 127.9.9.9, but its name resolves to 127.1.0.2" in said["refused"]
    assert job.coordinator.reasons["algo-2"].startswith("called from 127.9.9.9")
    assert job.coordinator.roster.missing == ["algo-1", "algo-2"]


def test_with_a_secret_any_address_may_do(net):
    """MUSTER_ADMIT=secret: who knows the key comes in from anywhere."""
    job = net(2, by_name=False)
    job.member("algo-2", own="127.9.9.9")
    job.join()
    job.until_all_have("welcome")


@pytest.mark.parametrize("host", ["algo-1", "algo-9", ""])
def test_a_host_that_is_none_is_refused(net, host):
    """The leader's own name, and one that the job doesn't have."""
    job = net(2)
    sock = call(job)
    sock.sendall(json.dumps({"muster": 1, "host": host, "nonce": "00"}).encode() + b"\n")
    assert b"refused" in answer(job, sock)


def test_a_second_host_of_a_name_is_refused(net, capfd):
    """One live session a host: the second is refused, and both addresses are in the log."""
    job = net(2)
    job.join()
    job.until_all_have("welcome")
    sock = call(job)
    sock.sendall(b'{"muster":1,"host":"algo-2","nonce":"00"}\n')
    assert b"is here already" in answer(job, sock)
    assert "algo-2 is here already, from 127.1.0.2; refused a second one" in capfd.readouterr().err
    end = time.monotonic() + 0.3
    job.until(lambda: time.monotonic() > end)
    assert job.kinds("algo-2") == ["welcome"]


def test_another_version_of_the_protocol_is_refused_for_good(net):
    """Two versions can't talk: the member is told, and needs not try again."""
    job = net(2)
    sock = call(job)
    sock.sendall(b'{"muster":2,"host":"algo-2","nonce":"00"}\n')
    said = json.loads(answer(job, sock))
    assert said["final"] is True
    assert "version 1" in said["refused"]


def test_a_wrong_secret_lets_nobody_in(net):
    """Neither side accepts the other; both say what it may be."""
    job = net(2)
    member = job.member("algo-2", key=job_key("job", "another"))
    job.join()
    job.until(lambda: "is the leader of another job" in member._reason)
    end = time.monotonic() + 0.5
    job.until(lambda: time.monotonic() > end)
    assert job.coordinator.roster.missing == ["algo-2"]


def test_a_member_gives_up(net):
    """A leader that can't be reached ends the member, with the reason."""
    job = net(2)
    job.leader.close()
    member = job.member("algo-2", patience=0.5)
    member.join(facts(*job.names))
    job.until(lambda: "leave" in job.kinds("algo-2"), but="algo-1")
    cause = job.verdict("algo-2")
    assert (cause.kind, cause.status) == ("rollcall", 74)
    assert "refuses the connection: no muster has started there yet" in cause.headline


def test_what_is_told_before_the_handshake_arrives(net):
    """A host that fails before it is let in says so as soon as it is."""
    job = net(2)
    job.join("algo-1")
    member = job.member("algo-2")
    member.join(None)
    member.tell({"type": "over", "cause": pack_cause(failure("early", "algo-2", time=1.0))})
    job.until_all_have("verdict")
    assert job.verdict("algo-1").headline == "early"


def test_a_changed_frame_drops_the_connection(net):
    """A frame that is not the next one of its session, whole and unchanged, is not believed."""
    job = net(2)
    job.join()
    job.until_all_have("welcome")
    member = job.peers["algo-2"]
    session = member._session
    frame = session._out.pack({"type": "ready", "launcher": "plain"})
    session._sock.send(frame.replace(b"plain", b"pain!"))
    job.until_all_have("verdict")
    assert "a frame with a wrong signature" in job.verdict("algo-1").headline
    assert not job.coordinator.roster["algo-2"].ready


def test_a_frame_can_not_be_sent_again(net):
    """The same bytes a second time are not the next frame."""
    job = net(2)
    job.join()
    job.until_all_have("welcome")
    session = job.peers["algo-2"]._session
    frame = session._out.pack({"type": "ranks", "done": 1, "living": 1})
    session._sock.send(frame + frame)
    job.until_all_have("verdict")
    assert "a frame with a wrong signature" in job.verdict("algo-1").headline


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "ranks", "done": 10**400, "living": 1},
        {"type": "failed", "cause": {"headline": "x"}},
        {"type": "join", "facts": {"hosts": 1}},
        {"type": ["over"]},
        {},
    ],
)
def test_nonsense_of_a_host_ends_the_host_and_not_the_harness(net, frame):
    """What an admitted host sends is not believed either: it counts as lost."""
    job = net(2)
    job.join()
    job.until_all_have("welcome")
    job.peers["algo-2"]._session.send(frame)
    job.until_all_have("verdict")
    assert job.verdict("algo-1").headline.startswith("host algo-2 was lost: it sent ")


def test_what_comes_after_a_connection_has_broken_is_left(net):
    """Two events of one turn: the first one's answer finds the other host gone."""
    job = net(3)
    job.join()
    job.until_all_have("welcome")
    session = job.leader._sessions["algo-3"]
    job.leader._lose("algo-3", "x")
    session._event()
    job.leader._hear("algo-3", 0.0)
    job.until_all_have("verdict", "algo-1", "algo-2")


@pytest.mark.parametrize("how", ["no-socket", "no-route"])
def test_a_call_that_can_not_be_made_is_made_again(net, monkeypatch, how):
    """Without a socket, or a route, there is a reason, one call at a time, and another try."""
    job = net(2)
    member = job.member("algo-2")
    with monkeypatch.context() as patched:
        if how == "no-socket":
            refused = OSError(97, "Address family not supported by protocol")
            patched.setattr(dialling.socket, "socket", Mock(side_effect=refused))
        else:
            patched.setattr(dialling, "_IN_PROGRESS", ())
        member.join(facts(*job.names))
        job.until(lambda: member._tries > 2)
        assert member._call is None
        assert member._reason.startswith("127.1.0.1:")
    job.join("algo-1")
    job.until_all_have("welcome")


def test_random_bytes_do_nothing(net):
    """Whatever strangers send, they are not let in, and the job goes on."""
    job = net(2)
    chance = random.Random(7)
    hello = b'{"muster":1,"host":"algo-2","nonce":"00"}\n'
    greetings = [
        chance.randbytes(100) + b"\n",
        b"\n" * 50,
        b"x" * 5000,
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00" + chance.randbytes(500),
        b"[" * 4000 + b"\n",
        b'{"muster":1}\n',
        b'{"muster":1,"host":7,"nonce":null}\n',
        b'{"muster":1,"host":"algo-2","nonce":"' + b"0" * 3000 + b'"}\n',
        b'{"muster":1,"host":"algo-2","nonce":"\\ud800"}\n',
        b'{"muster":1,"host":"\\ud800","nonce":"00"}\n',
        b'{"muster":1,"host":"algo-2","nonce":"zz"}\n',
        b'{"muster":' + b"9" * 400 + b',"host":"algo-2","nonce":"00"}\n',
        hello + b"more",
        hello + hello,
        hello[:20],
    ]
    socks = []
    for greeting in greetings:
        sock = call(job)
        sock.sendall(greeting)
        socks.append(sock)
    sock = call(job)
    sock.sendall(hello)
    assert b"proof" in answer(job, sock)
    sock.sendall(chance.randbytes(70) + b"\n")
    assert answer(job, sock) == b""
    sock = call(job)
    sock.sendall(hello)
    assert b"proof" in answer(job, sock)
    sock.sendall(b"0" * 64 + b' {"type":"enter","time":1}\n')
    assert answer(job, sock) == b""
    assert job.coordinator.roster.missing == ["algo-1", "algo-2"]
    job.join()
    job.until_all_have("welcome")


def test_a_thousand_connections_keep_nobody_out(net):
    """Strangers that open connections and say nothing are dropped, oldest first."""
    job = net(2)
    socks = []
    for _ in range(1000):
        socks.append(call(job, "127.9.9.9"))
        job.leader.turn()
    job.join()
    job.until_all_have("welcome")
    assert len(job.leader._callers) <= len(job.names) + 64
    for sock in socks:
        sock.close()


def test_a_half_open_connection_ends(net, monkeypatch):
    """Who says nothing is dropped when the handshake's time is over."""
    monkeypatch.setattr("muster.channel.admission.HANDSHAKE_S", 0.2)
    job = net(2)
    sock = call(job)
    assert answer(job, sock) == b""
    assert not job.leader._callers


def test_a_leader_that_has_ended_the_job_is_quiet(net):
    """After its verdict it waits for hosts that have not come, and does nothing meanwhile."""
    job = net(3)
    job.join("algo-1")
    job.leader.tell({"type": "over", "cause": pack_cause(failure("x", "algo-1", time=1.0))})
    job.until_all_have("verdict", "algo-1")
    turns = 0
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        time.sleep(min(job.leader.patience(), 0.5))
        job.leader.turn()
        turns += 1
    assert turns < 40  # Heartbeats every 0.1 s, and a look every second.


def test_a_taken_port_is_told(net):
    """The leader can't listen: it says on which port, and what to do."""
    job = net(2)
    with pytest.raises(RollCallError, match=f"port {job.port}, on which the hosts"):
        listen(job.port, job.known["algo-1"])


def test_a_leader_listens_for_both_families():
    """Without an address of its own the leader can be called by IPv4, whatever it listens on."""
    with listen(0, "") as listener:
        port = listener.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
