"""Remote start without SSH: what launchers ask of other hosts, and what others ask of this one.

    mpirun ─► muster-rsh ══ unix socket ══► RemoteStart ──► channel ──► leader ──► RemoteStart ─► orted
                                             of its host                            of the host asked

A caller is a `muster-rsh` (rsh.py) on this host; a spawned program runs here for a caller elsewhere.
Both ends are this one object, as any host may be asked and, for scripts with launchers of
their own, any may ask. Effects: a unix socket, processes.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import selectors
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from muster.channel.relay import UNDELIVERED
from muster.channel.wire import Message
from muster.launch.protocol import RSH_VARIABLE
from muster.launch.spawned import Spawned

_HANGUP_S = 5.0
"""What a program gets to end when its caller has gone."""
_REQUEST_LIMIT = 1024 * 1024


@dataclass
class _Caller:
    """One muster-rsh that waits for a program elsewhere."""

    number: int
    conn: socket.socket
    host: str = ""
    asked: bool = False
    buffer: bytearray = field(default_factory=bytearray)
    backlog: bytearray = field(default_factory=bytearray)
    owed: int = 0
    """Bytes of output that are still in the backlog, to be acknowledged when they are not."""
    over: bool = False


class RemoteStart:
    """This host's part in remote start. Closed, until the launcher of this job is one that needs it.

    Args:
        tell: tells the leader something.
        folder: a private folder for the socket.
        env: the environment of what is started here.
    """

    def __init__(
        self, tell: Callable[[Message], None], folder: str, env: Mapping[str, str]
    ) -> None:
        self.address = os.path.join(folder, "rsh.sock")
        self._tell = tell
        self._env = {**env, RSH_VARIABLE: self.address}
        self._names: Mapping[str, str] = {}
        self._callers: dict[int, _Caller] = {}
        self._spawned: dict[tuple[str, int], Spawned] = {}
        self._next_id = 1
        self._selector: selectors.BaseSelector | None = None
        self._refusal = "nothing in this job starts programs on other hosts"
        self._listener: socket.socket | None = None

    def open(self, names: Mapping[str, str]) -> None:
        """From now on this host asks and is asked.

        Args:
            names: other names that a launcher may use for a host, its address for instance.
        """
        self._refusal, self._names = "", names
        self._listener = socket.socket(socket.AF_UNIX)
        previous = os.umask(0o177)  # The folder is private, and so is the socket itself.
        try:
            self._listener.bind(self.address)
        finally:
            os.umask(previous)
        self._listener.listen(1024)
        self._listener.settimeout(0)

    @property
    def processes(self) -> dict[int, subprocess.Popen[bytes]]:
        """The programs that run here for others, by pid."""
        running = [one.process for one in self._spawned.values() if one.process]
        return {process.pid: process for process in running}

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Lets `selector` call back with what arrives."""
        self._selector = selector
        if self._listener:
            selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def heed(self, directive: Message) -> bool:
        """Does what a directive says; False when it is none of remote start."""
        kind, number = directive["type"], int(directive.get("id", 0))
        if kind == "spawn":
            self._spawn(directive, number)
        elif kind in ("hangup", "ate"):
            spawned = self._spawned.get((directive["from"], number))
            if spawned and kind == "ate":
                spawned.taken(int(directive["size"]))
            elif spawned:
                spawned.end(_HANGUP_S)
        elif kind in ("output", "exited"):
            caller = self._callers.get(number)
            if caller and caller.host == directive["from"]:
                self._pass_on(caller, directive)
        else:
            return False
        return True

    def look(self) -> None:
        """Notices what has ended here. After each turn of the loop."""
        for key, spawned in list(self._spawned.items()):
            spawned.look()
            if spawned.told:
                del self._spawned[key]

    def next_due(self) -> float | None:
        """When `look` has something to do, on the monotonic clock."""
        due = (spawned.next_due() for spawned in self._spawned.values())
        return min((at for at in due if at is not None), default=None)

    def end(self, grace: float) -> None:
        """The job is over: what runs here for others is to end, and nothing more is started."""
        self._refusal = "the job is ending"
        for spawned in self._spawned.values():
            spawned.end(grace)

    def close(self) -> None:
        """Lets go of everything; callers see the end without a status."""
        for caller in list(self._callers.values()):
            caller.conn.close()
        for spawned in self._spawned.values():
            spawned.close()
        if self._listener:
            self._listener.close()

    # Here for others.

    def _spawn(self, directive: Message, number: int) -> None:
        who = directive["from"]

        def tell(message: Message) -> None:
            self._tell({**message, "to": who, "id": number})

        if self._refusal:
            tell({"type": "exited", "status": UNDELIVERED, "why": self._refusal})
            return
        assert self._selector is not None
        spawned = Spawned(directive["command"], self._env, tell, self._selector)
        if not spawned.told:
            self._spawned[who, number] = spawned

    # Elsewhere for a caller here.

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            conn, _ = self._listener.accept()
        except OSError:
            return
        conn.settimeout(0)
        number, self._next_id = self._next_id, self._next_id + 1
        caller = self._callers[number] = _Caller(number, conn)
        assert self._selector is not None
        self._selector.register(conn, selectors.EVENT_READ, lambda: self._serve(caller))

    def _serve(self, caller: _Caller) -> None:
        """Something has happened at a caller's socket: its request, room for output, its end."""
        if caller.backlog and not self._flush(caller):
            return
        try:
            data = caller.conn.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(caller)
            return
        caller.buffer += data
        if not caller.asked and (b"\n" in data or len(caller.buffer) > _REQUEST_LIMIT):
            self._ask(caller)

    def _ask(self, caller: _Caller) -> None:
        caller.asked = True
        try:
            request = json.loads(caller.buffer)
            host, command = str(request["host"]), str(request["command"])
        except (ValueError, KeyError, TypeError):
            self._drop(caller)
            return
        caller.host = self._names.get(host, host)
        if self._refusal:
            end = {"type": "exited", "status": UNDELIVERED, "why": self._refusal}
            self._pass_on(caller, end)
            return
        self._tell({"type": "spawn", "to": caller.host, "id": caller.number, "command": command})

    def _pass_on(self, caller: _Caller, directive: Message) -> None:
        kept = {
            name: directive[name]
            for name in ("type", "stream", "data", "status", "why")
            if name in directive
        }
        caller.backlog += json.dumps(kept).encode() + b"\n"
        if directive["type"] == "output":
            caller.owed += len(base64.b64decode(directive["data"]))
        else:
            caller.over = True
        self._flush(caller)

    def _flush(self, caller: _Caller) -> bool:
        """Sends what waits; False when the caller is gone by now."""
        try:
            while caller.backlog:
                del caller.backlog[: caller.conn.send(caller.backlog)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(caller)
            return False
        assert self._selector is not None
        waits = selectors.EVENT_WRITE if caller.backlog else 0
        key = self._selector.get_key(caller.conn)
        if key.events != selectors.EVENT_READ | waits:
            self._selector.modify(caller.conn, selectors.EVENT_READ | waits, key.data)
        if not caller.backlog and caller.owed:
            size, caller.owed = caller.owed, 0
            self._tell({"type": "ate", "to": caller.host, "id": caller.number, "size": size})
        return True

    def _drop(self, caller: _Caller) -> None:
        """The caller has gone: what runs for it ends."""
        assert self._selector is not None
        with contextlib.suppress(KeyError):
            self._selector.unregister(caller.conn)
        caller.conn.close()
        self._callers.pop(caller.number, None)
        if caller.host and not caller.over:
            self._tell({"type": "hangup", "to": caller.host, "id": caller.number})
