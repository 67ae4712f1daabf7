"""What all hosts tell of a topic, before the leader answers it. Pure.

    host → leader   tell {topic, data}       each host once a topic
    leader → itself told {topic, data}       what each host has told, once all have
    leader → host   answered {topic, answer} what the leader's own stage makes of it

Between roll call and ranks: the checks compare hosts so, and learn whom to call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from muster.channel import message as msg
from muster.channel.wire import Message, WireError

_TOPIC_LIMIT = 40
_DATA_LIMIT = 64 * 1024
"""Characters that a host tells of one topic: the leader keeps those of 512 hosts."""


class Consultation:
    """What has been told, by topic and host."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Any]] = {}

    def hear(
        self, host: str, message: Message, hosts: Sequence[str]
    ) -> Iterator[tuple[str, Message]]:
        """Takes in what a host says. What follows: whom to tell, and what.

        Args:
            host: who says it.
            message: a `tell`, or the leader's `answer`.
            hosts: of the job, the leader first.

        Raises:
            WireError: it makes no sense; nothing has been changed by it.
        """
        topic = msg.text(message, "topic", _TOPIC_LIMIT)
        if message["type"] == "answer":
            if host != hosts[0]:
                raise WireError("an answer that is not the leader's")
            answered = {"type": "answered", "topic": topic, "answer": message.get("answer")}
            yield from ((name, answered) for name in hosts)
            return
        told = self._told.setdefault(topic, {})
        if host in told:
            raise WireError(f"{topic} was told twice")
        data = message.get("data")
        if len(json.dumps(data)) > _DATA_LIMIT:
            raise WireError(f"{topic} was told at too great a length")
        told[host] = data
        if len(told) == len(hosts):
            whole = {name: told[name] for name in hosts}
            yield hosts[0], {"type": "told", "topic": topic, "data": whole}
