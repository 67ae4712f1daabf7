"""What the shim and the harness say to each other: one JSON object a line.

    shim     → hello {rank, local_rank, pid}, with the read ends of two pipes
    harness  → start {env}, {argv, cwd} where the launcher doesn't say what to run
    shim     → started {pid} · ended {code, time}
    harness  → signal {number, group} · release

A stream socket in the file system: it has no limit on a message's size, and its
end of file is how each side learns that the other is gone.
"""

from __future__ import annotations

import json
import socket
from typing import Any

SOCKET_VARIABLE = "MUSTER_SOCKET"
HERE_VARIABLE = "MUSTER_SOCKET_HERE"
"""The same in what was started here for another host: a launcher may carry its own host's along."""
RSH_VARIABLE = "MUSTER_RSH"
"""The socket of remote start."""
AGREE_VARIABLE = "MUSTER_AGREE"
"""The socket where ranks ask at which checkpoint all of them go on."""
PRIVATE = (SOCKET_VARIABLE, HERE_VARIABLE, RSH_VARIABLE, AGREE_VARIABLE)
"""What no script sees, unless its harness hands it over."""
ERROR_DIR_VARIABLE = "MUSTER_ERROR_DIR"

Message = dict[str, Any]


def send(conn: socket.socket, message: Message, fds: tuple[int, ...] = ()) -> None:
    """Sends one message, and `fds` with it.

    Raises:
        OSError: the other side is gone.
    """
    line = json.dumps(message).encode() + b"\n"
    if fds:
        socket.send_fds(conn, [line], list(fds))  # A hello is small: it goes out in one piece.
    else:
        conn.sendall(line)


class Lines:
    """The messages that arrive on one socket."""

    def __init__(self, conn: socket.socket) -> None:
        self._conn = conn
        self._buffer = b""
        self.fds: list[int] = []
        """Descriptors that came along, in order."""

    def receive(self) -> list[Message] | None:
        """The messages that are complete after one read; None when the other side is gone."""
        try:
            data, fds, _, _ = socket.recv_fds(self._conn, 65536, 4)
        except (ConnectionResetError, BrokenPipeError):
            return None
        self.fds += fds
        if not data:
            return None
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]
