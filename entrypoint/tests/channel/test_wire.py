import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.channel import key as keys
from muster.channel.wire import FRAME_LIMIT, Line, Signer, WireError, dump, load

KEY = b"k" * 32
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
messages = st.dictionaries(st.text(max_size=8), values, max_size=4)


@given(st.lists(messages, max_size=5))
def test_what_is_packed_is_unpacked(sent):
    """Any messages arrive as they were, in order; a frame is one line."""
    writer, reader, line = (
        Signer(KEY, "to-leader"),
        Signer(KEY, "to-leader"),
        Line(FRAME_LIMIT),
    )
    frames = [writer.pack(message) for message in sent]
    assert all(frame.count(b"\n") == 1 for frame in frames)
    assert [reader.unpack(one) for one in line.feed(b"".join(frames))] == sent


@given(st.lists(messages, min_size=1, max_size=3), st.data())
def test_lines_in_any_pieces(sent, data):
    """However a stream is cut on its way, its lines are the same."""
    writer = Signer(KEY, "to-member")
    stream = b"".join(writer.pack(message) for message in sent)
    line, got = Line(FRAME_LIMIT), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        got += line.feed(stream[:size])
        stream = stream[size:]
    reader = Signer(KEY, "to-member")
    assert [reader.unpack(one) for one in got] == sent


def frames(count: int = 3) -> list[bytes]:
    writer = Signer(KEY, "to-leader")
    return [writer.pack({"n": number}).rstrip(b"\n") for number in range(count)]


@pytest.mark.parametrize(
    ("good", "bad"), [([], 1), ([0], 0), ([0], 2), ([0, 1], 0)], ids=["late", "again", "gap", "old"]
)
def test_each_frame_counts_once_and_in_its_turn(good, bad):
    """A frame that is left out, repeated or moved is refused."""
    reader, sent = Signer(KEY, "to-leader"), frames()
    assert [reader.unpack(sent[number]) for number in good] == [{"n": number} for number in good]
    with pytest.raises(WireError, match="wrong signature"):
        reader.unpack(sent[bad])


@pytest.mark.parametrize(
    ("key", "direction"), [(b"x" * 32, "to-leader"), (KEY, "to-member")], ids=["key", "direction"]
)
def test_another_session_and_another_direction(key, direction):
    """What was signed with another key, or by the reader's own side, is refused."""
    with pytest.raises(WireError, match="wrong signature"):
        Signer(key, direction).unpack(frames()[0])


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data):
    """Random bytes never make a message."""
    with pytest.raises(WireError):
        Signer(KEY, "to-leader").unpack(data)


@given(st.data())
def test_one_changed_byte_is_enough(data):
    """A frame with any byte changed is refused."""
    frame = bytearray(frames()[0])
    place = data.draw(st.integers(0, len(frame) - 1))
    frame[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WireError):
        Signer(KEY, "to-leader").unpack(bytes(frame))


@pytest.mark.parametrize("data", [b"x" * 11, b"x" * 5 + b"\n" + b"y" * 11, b"z" * 11 + b"\n"])
def test_a_long_line_is_refused(data):
    """Nobody can make the other side keep more than the limit."""
    with pytest.raises(WireError, match="more than 10 bytes"):
        Line(10).feed(data)


def test_a_message_too_large_is_not_sent():
    """The sender hears of it, not the other side."""
    with pytest.raises(WireError, match="too large for a frame"):
        Signer(KEY, "to-leader").pack({"text": "x" * FRAME_LIMIT})


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"1", b'"x"', b"\xff", b"[" * 100_000])
def test_what_is_no_object(line):
    """A line that holds no JSON object is refused, however deep it is nested."""
    with pytest.raises(WireError):
        load(line)


@given(messages)
def test_plain_lines(message):
    """A plain line comes back as it was."""
    assert load(dump(message)) == message


def test_keys_depend_on_everything():
    """Another job, secret, host or nonce is another key, and parts can't be shifted."""
    made = [
        keys.job_key("job", None),
        keys.job_key("job2", None),
        keys.job_key("job", "secret"),
        keys.job_key("job", "secret2"),
        keys.session_key(KEY, "a", "bc", "d"),
        keys.session_key(KEY, "ab", "c", "d"),
        keys.session_key(KEY, "a", "b", "cd"),
        bytes.fromhex(keys.proof(KEY, "a", "bc", "d")),
    ]
    assert len(set(made)) == len(made)
    assert keys.job_key("job", "") == keys.job_key("job", None)
