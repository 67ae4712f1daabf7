"""What all hosts tell of a topic, before the leader answers it. Pure.

    host → leader   tell {topic, data}       each host once a topic
    leader → itself told {topic, data}       what each host has told, once all have
    leader → host   answered {topic, answer} what the leader's own stage makes of it

Between roll call and ranks: the checks compare hosts so, and learn whom to call.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
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

    def hear(self, host: str, message: Message, hosts: Sequence[str]) -> Message | None:
        """Takes in what a host tells. What the leader is to be told, once all of `hosts` have.

        Raises:
            WireError: it makes no sense; nothing has been changed by it.
        """
        topic = msg.text(message, "topic", _TOPIC_LIMIT)
        told = self._told.setdefault(topic, {})
        if host in told:
            raise WireError(f"{topic} was told twice")
        data = message.get("data")
        if len(json.dumps(data)) > _DATA_LIMIT:
            raise WireError(f"{topic} was told at too great a length")
        told[host] = data
        if len(told) < len(hosts):
            return None
        return {"type": "told", "topic": topic, "data": {name: told[name] for name in hosts}}


def answered(message: Message) -> Message:
    """The leader's answer as it goes to all. Raises WireError."""
    topic = msg.text(message, "topic", _TOPIC_LIMIT)
    return {"type": "answered", "topic": topic, "answer": message.get("answer")}
