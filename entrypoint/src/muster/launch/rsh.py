"""`muster-rsh HOST COMMAND…`: runs a command on another host of the job, as ssh would, without ssh.

Open MPI's plm_rsh_agent, and the `ssh` and `rsh` that launchers below muster find. It asks this
host's harness, over a unix socket, and shows what comes back. stdin is not passed on. The status
is the command's; 255 when it is not known, as with ssh (https://man.openbsd.org/ssh.1).
Standard library only, and little of it: this runs once for each host of a job.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence

_VARIABLE = "MUSTER_RSH"
_UNKNOWN = 255
_WITH_VALUE = frozenset("BbcDEeFIiJLlmOopQRSWw")
"""ssh's options that take a value, in the next word or in the same one."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command in `argv`, and returns its status."""
    words = list(sys.argv[1:] if argv is None else argv)
    host, command = parse(words)
    if not host or not command:
        return _fail(f"usage: muster-rsh HOST COMMAND (got {' '.join(words)!r})")
    address = os.environ.get(_VARIABLE)
    if not address:
        return _fail(f"{_VARIABLE} is not set: this works below a launcher of muster alone")
    conn = socket.socket(socket.AF_UNIX)
    try:
        conn.connect(address)
        conn.sendall(json.dumps({"host": host, "command": command}).encode() + b"\n")
    except OSError as error:
        return _fail(f"the harness does not answer at {address}: {error.strerror}")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return _follow(conn, host)


def parse(words: Sequence[str]) -> tuple[str, str]:
    """The host and the command in ssh's words; the options are for an ssh, and there is none.

    Options stand in front of the host and, as horovodrun writes them, also behind it. The rest is
    joined by blanks, which is what ssh sends.
    """
    rest = list(words)
    host = ""
    while rest:
        word = rest[0]
        if word == "--" and not host:
            del rest[0]
        elif word.startswith("-") and len(word) > 1:
            alone = word[1] in _WITH_VALUE and len(word) == 2  # noqa: PLR2004  (- and its letter)
            del rest[: 2 if alone else 1]
        elif not host:
            host = rest.pop(0).rpartition("@")[2]
        else:
            break
    return host, " ".join(rest)


def _follow(conn: socket.socket, host: str) -> int:
    """Shows the command's output until its end is told. Its status."""
    buffer = b""
    while data := _receive(conn):
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if message["type"] == "output":
                _write(message["stream"], base64.b64decode(message["data"]))
            elif message["why"]:
                return _fail(f"{host}: {message['why']}", message["status"])
            else:
                return int(message["status"])
    return _fail(f"{host}: the connection ended before the command did")


def _receive(conn: socket.socket) -> bytes:
    try:
        return conn.recv(65536)
    except OSError:
        return b""


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _fail(why: str, status: int = _UNKNOWN) -> int:
    os.write(2, f"muster-rsh: {why}\n".encode("utf-8", "surrogateescape"))
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main())
