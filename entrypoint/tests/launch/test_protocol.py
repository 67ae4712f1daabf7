import json
import os
import socket
from collections.abc import Iterator

import pytest

from muster.launch.protocol import Lines, send

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Return two connected sockets."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_message_arrives(pair: Pair):
    """What one side sends the other side receives, one JSON object a line."""
    send(pair[0], {"type": "start", "env": {"A": "größe\n"}})
    send(pair[0], {"type": "release"})
    assert Lines(pair[1]).receive() == [
        {"type": "start", "env": {"A": "größe\n"}},
        {"type": "release"},
    ]


def test_a_message_in_pieces(pair: Pair):
    """A message counts when its line is complete, and the start of the next one is kept."""
    lines = Lines(pair[1])
    for piece, messages in (
        (b'{"a"', []),
        (b': 1}\n{"b": 2', [{"a": 1}]),
        (b'}\n{"c": 3}\n', [{"b": 2}, {"c": 3}]),
    ):
        pair[0].sendall(piece)
        assert lines.receive() == messages


def test_a_long_message(pair: Pair):
    """A message of any length arrives: all variables of a job are one message."""
    message = {"env": {str(number): "x" * 1000 for number in range(60)}}
    pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1024 * 1024)
    send(pair[0], message)
    lines, received = Lines(pair[1]), []
    while not received:
        received += lines.receive() or []
    assert received == [message]


def test_descriptors_come_along(pair: Pair):
    """Descriptors that go with a message can be used by the receiver, in their order."""
    read, write = os.pipe()
    send(pair[0], {"type": "hello"}, (read, write))
    lines = Lines(pair[1])
    assert lines.receive() == [{"type": "hello"}]
    got_read, got_write = lines.fds
    os.write(got_write, b"through")
    assert os.read(got_read, 100) == b"through"
    for fd in (read, write, *lines.fds):
        os.close(fd)


def test_the_other_side_is_gone(pair: Pair):
    """What was sent before the end is still received; then the end is told, each time."""
    send(pair[0], {"a": 1})
    pair[0].close()
    lines = Lines(pair[1])
    assert lines.receive() == [{"a": 1}]
    assert lines.receive() is None
    assert lines.receive() is None


def test_a_reset_is_an_end(pair: Pair):
    """A side that goes without having read everything is gone like any other."""
    send(pair[1], {"unread": 1})
    pair[0].close()
    assert Lines(pair[1]).receive() is None


def test_sending_to_nobody_is_an_error(pair: Pair):
    """The sender learns that the other side is gone."""
    pair[1].close()
    with pytest.raises(OSError, match="Broken pipe"):
        send(pair[0], {"a": 1})


def test_a_line_is_ascii(pair: Pair):
    """No character of a message can be taken for the end of its line."""
    send(pair[0], {"a": "\n\u2028\x85"})
    data = pair[1].recv(1000)
    assert data.count(b"\n") == 1
    assert data.isascii()
    assert json.loads(data) == {"a": "\n\u2028\x85"}
