"""The harness's end of the conversations with its ranks. Effects: a unix socket, in one thread."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

from muster.launch import protocol
from muster.launch.policy import LogPolicy
from muster.launch.streams import LogPump, Source
from muster.model import ErrorRecord, RankEnd

_UNCAUGHT = 1
"""Python's status after an exception that nothing caught."""


@dataclass
class Rank:
    """One rank as the harness knows it. Ends exactly once."""

    conn: socket.socket
    rank: int
    local_rank: int
    lines: protocol.Lines
    stdout: Source
    stderr: Source
    shim: int
    """The shim's process."""
    pid: int = 0
    """The script's process; 0 until it is started."""
    code: int | None = None
    ended_at: float = 0.0
    signalled: int = 0
    signalled_at: float = 0.0
    killed: bool = False
    """Whether the harness has lost its patience with it."""
    released: bool = False

    @property
    def alive(self) -> bool:
        return self.code is None

    def signal(self, number: int, *, group: bool = False, ending: bool = True) -> None:
        """Asks the shim to signal the script; `ending` says that we want it to end."""
        if not self.alive:
            return
        if ending and not self.signalled:
            self.signalled, self.signalled_at = number, time.time()
        self._send({"type": "signal", "number": number, "group": group})

    def kill(self) -> None:
        """Ends the script and all of its group at once."""
        self.killed = True
        self.signal(signal.SIGKILL, group=True)

    def release(self) -> None:
        """Lets the shim end as its script did."""
        if not self.released:
            self.released = True
            self._send({"type": "release"})

    def end(self, code: int, at: float) -> None:
        if self.code is None:
            self.code, self.ended_at = code, at

    def _send(self, message: protocol.Message) -> None:
        try:
            protocol.send(self.conn, message)
        except OSError:
            return  # The shim is gone; its end of file says so as well.


@dataclass(frozen=True)
class Orders:
    """What each rank of this host is told."""

    env: Mapping[str, str]
    """What its script gets on top of what it inherited."""
    only_rank: int = 0
    """The rank of a process to which no launcher gave one."""
    argv: tuple[str, ...] = ()
    """What it runs, when its launcher doesn't say."""
    cwd: str = ""
    """And where."""


class Ranks:
    """All ranks of this host.

    Args:
        folder: a private folder for the socket and the error records.
        orders: what each is told.
        pump: where their output goes.
        policy: which of it is shown, and how.
    """

    def __init__(self, folder: str, orders: Orders, pump: LogPump, policy: LogPolicy) -> None:
        self.address = os.path.join(folder, "ranks.sock")
        self.all: list[Rank] = []
        self.closed = False
        """Set when the job is ending: no further rank is started."""
        self._folder = folder
        env = {**orders.env, protocol.ERROR_DIR_VARIABLE: folder}
        self._start = {"type": "start", "env": env, "argv": orders.argv, "cwd": orders.cwd}
        self._pump = pump
        self._policy = policy
        self._only_rank = orders.only_rank
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.address)
        self._listener.listen(1024)
        self._selector: selectors.BaseSelector | None = None

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Lets `selector` call `handle` with what arrives."""
        self._selector = selector
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    @property
    def living(self) -> list[Rank]:
        return [rank for rank in self.all if rank.alive]

    def _accept(self) -> None:
        conn, _ = self._listener.accept()
        lines = protocol.Lines(conn)
        assert self._selector is not None
        self._selector.register(conn, selectors.EVENT_READ, lambda: self._greet(conn, lines))

    def _greet(self, conn: socket.socket, lines: protocol.Lines) -> None:
        """The first message of a shim: hello, with its pipes."""
        assert self._selector is not None
        messages = lines.receive()
        if not messages and messages is not None:
            return
        self._selector.unregister(conn)
        if messages is None or self.closed:
            for fd in lines.fds:
                os.close(fd)
            conn.close()
            return
        hello = messages[0]
        number = self._only_rank if hello["rank"] is None else hello["rank"]
        out, err = (self._add(fd, target, number) for target, fd in enumerate(lines.fds, start=1))
        rank = Rank(conn, number, hello["local_rank"] or 0, lines, out, err, hello["pid"])
        self.all.append(rank)
        self._selector.register(conn, selectors.EVENT_READ, lambda: self._hear(rank))
        rank._send(self._start)  # noqa: SLF001  (same module)

    def _add(self, fd: int, target: int, rank: int) -> Source:
        stream = ("stdout", "stderr")[target - 1]
        source = self._pump.add(
            fd, target, self._policy.prefix(rank), self._policy.file(rank, stream)
        )
        source.muted = not self._policy.shows(rank)
        return source

    def _hear(self, rank: Rank) -> None:
        messages = rank.lines.receive()
        if messages is None:
            assert self._selector is not None
            self._selector.unregister(rank.conn)
            # A shim that leaves without a word was killed, and the script with it.
            rank.end(-9, time.time())
            return
        for message in messages:
            if message["type"] == "started":
                rank.pid = message["pid"]
            elif message["type"] == "ended":
                rank.end(message["code"], message["time"])

    def ends(self) -> tuple[RankEnd, ...]:
        """How the ranks ended, those that have. Reads their error records."""
        return tuple(
            RankEnd(
                rank=rank.rank,
                local_rank=rank.local_rank,
                pid=rank.pid,
                code=rank.code,
                time=rank.ended_at,
                signalled=rank.signalled,
                signalled_time=rank.signalled_at,
                killed=rank.killed and rank.code == -signal.SIGKILL,
                error=read_error(self._folder, rank.pid, rank.code) if rank.code else None,
                stderr_tail=rank.stderr.tail_lines() if rank.code else (),
            )
            for rank in sorted(self.all, key=lambda item: item.rank)
            if rank.code is not None
        )


def read_error(folder: str, pid: int, code: int) -> ErrorRecord | None:
    """The error record of the rank whose script is `pid` and ended with `code`.

    Where the script is a shell that passed Python's own status 1 on, the last record of its
    direct children speaks for it.
    """
    records = []
    for name in os.listdir(folder):
        if not name.endswith(".error.json"):
            continue
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                records.append(ErrorRecord(**json.load(file)))
        except (OSError, ValueError, TypeError):
            continue  # Written by a process that died on it.
    own = [record for record in records if record.pid == pid]
    below = [record for record in records if record.ppid == pid and code == _UNCAUGHT]
    return max(own or below, key=lambda record: record.time, default=None)
