"""Requests between two hosts, passed on by the leader: start a program there, and what it does. Pure.

    spawn {to, id, command}   hangup {to, id}   ate {to, id, size}        who asks → who does it
    output {to, id, stream, data}   exited {to, id, status, why}          who does it → who asks

The leader adds `from`. `id` is the asking host's own number for the request. Members have one
connection, to the leader, so everything between two of them goes through it.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.channel import message as msg
from muster.channel.roster import Roster
from muster.channel.wire import Message, WireError

KINDS = ("spawn", "hangup", "ate", "output", "exited")
UNDELIVERED = 255
"""What ssh ends with when it could not do its work."""
_COMMAND_LIMIT = 512 * 1024
_DATA_LIMIT = 256 * 1024
_NAME_LIMIT = 300


def relay(
    roster: Roster,
    sender: str,
    message: Message,
    send: Callable[[str, Message], None],
    refusal: str,
) -> None:
    """Passes a message on to the host that it is for.

    Args:
        roster: the job's hosts.
        sender: the host that it comes from.
        message: one of KINDS.
        send: sends to a host.
        refusal: why nothing may be started now; empty while it may.

    Raises:
        WireError: the message makes no sense.
    """
    _check(message)
    target = msg.text(message, "to", _NAME_LIMIT)
    known = target in roster
    if message["type"] == "spawn":
        why = refusal if known else f"{target} is no host of this job"
        if known and roster[target].lost:
            why = f"{target} was lost"
        if why:
            answer = {"type": "exited", "id": message["id"], "status": UNDELIVERED, "why": why}
            send(sender, {**answer, "from": target, "to": sender})
            return
    if known:
        send(target, {**message, "from": sender})


def _check(message: Message) -> None:
    msg.number(message, "id")
    kind = message["type"]
    if kind == "spawn" and len(msg.text(message, "command", _COMMAND_LIMIT + 1)) > _COMMAND_LIMIT:
        raise WireError("a command that is too long")
    if kind == "output":
        msg.number(message, "stream")
        if len(msg.text(message, "data", _DATA_LIMIT + 1)) > _DATA_LIMIT:
            raise WireError("too much output at once")
    if kind == "exited":
        msg.number(message, "status")
        msg.text(message, "why")
    if kind == "ate":
        msg.number(message, "size")
