"""Frames of the channel: one JSON object a line, signed and numbered. Pure.

Before a peer has shown that it knows the key, lines are short and plain (`parse_plain`).
Afterwards each line is `SIGNATURE JSON`, where the signature covers the direction, the number of
the frame, and the JSON: a frame can be neither changed nor left out nor sent again.
"""

from __future__ import annotations

import json
from typing import Any, Literal

PLAIN_LIMIT = 4 * 1024
"""Bytes of a line before authentication."""
PROTOCOL = 1
"""The version of what is spoken here: hosts with another one can't talk."""
FRAME_LIMIT = 1024 * 1024
"""Bytes of a line after it."""

_SIGNATURE = 64
"""Hexadecimal digits of an HMAC with SHA-256."""

Message = dict[str, Any]
Direction = Literal["to-leader", "to-member"]


class WireError(Exception):
    """The other side does not speak this protocol, or is not who it says: drop the connection."""


BAD_INPUT = (WireError, ValueError, TypeError, ArithmeticError, LookupError)
"""What nonsense may raise on its way through: the connection is dropped, never the harness."""


class Line:
    """Cuts a stream of bytes into lines of a bounded length.

    Args:
        limit: bytes of the longest line, its end not counted.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes.

        Raises:
            WireError: a line is too long, whole or not.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        if any(len(line) > self.limit for line in (*lines, self._rest)):
            raise WireError(f"a line of more than {self.limit} bytes")
        return lines


class Signer:
    """The frames of one session in one direction. Use once for a session.

    Args:
        key: the session's key, which no other session has.
        direction: whose frames these are: a frame can't be sent back to its sender.
    """

    def __init__(self, key: bytes, direction: Direction) -> None:
        # A job of one host has messages too, but nobody to sign them for: OpenSSL is 3 MB.
        import hmac  # noqa: PLC0415

        self._digest, self._same = hmac.digest, hmac.compare_digest
        self._key = key
        self._direction = direction.encode()
        self._number = 0

    def pack(self, message: Message) -> bytes:
        """The next frame, its line end included.

        Raises:
            WireError: the message is too large for a frame.
        """
        body = dump(message)
        if _SIGNATURE + 1 + len(body) > FRAME_LIMIT:
            raise WireError(f"a message of {len(body)} bytes is too large for a frame")
        return self._sign(body) + b" " + body + b"\n"

    def unpack(self, line: bytes) -> Message:
        """The message of the next frame.

        Raises:
            WireError: the frame is not the next one of this session, or no JSON object.
        """
        signature, _, body = line.partition(b" ")
        if not self._same(signature, self._sign(body)):
            raise WireError("a frame with a wrong signature")
        return load(body)

    def _sign(self, body: bytes) -> bytes:
        head = self._direction + b" " + str(self._number).encode() + b" "
        self._number += 1
        return self._digest(self._key, head + body, "sha256").hex().encode()


def dump(message: Message) -> bytes:
    """A message as one line of JSON without its end. Never holds a line feed."""
    return json.dumps(message, separators=(",", ":")).encode()


def load(line: bytes) -> Message:
    """The JSON object of a line.

    Raises:
        WireError: it is none.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise WireError("a line that is no JSON") from None
    if not isinstance(message, dict):
        raise WireError("a line that is no JSON object")
    return message
