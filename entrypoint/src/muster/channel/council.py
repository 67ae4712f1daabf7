"""At which step all ranks go on: who has said what, and what follows. Pure, given the time.

One object for a job, the coordinator's. A host tells the sum of those of its ranks that wait, anew
with each that comes or goes, under a number that grows (`serial`). When all ranks of the world have
been told of, all hosts get the sum of all, and the next round begins with nobody. A host whose
ranks have changed since knows by the number what the answer is for.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.channel import message as msg
from muster.channel.wire import Message
from muster.tally import Tally, merge

REMIND_S = 30.0
"""How often those that wait are told for whom."""
_NAMED = 8
"""Ranks that a line names."""


class Council:
    """What the hosts have told in this round."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[int, Tally]] = {}
        self._began = 0.0
        self._remind_at: float | None = None

    def hear(self, host: str, message: Message, now: float) -> None:
        """Takes in what a host tells: `agree`, with the sum of its waiting ranks, or none.

        Raises:
            WireError, ValueError: it makes no sense; nothing has been changed by it.
        """
        serial = int(msg.number(message, "serial"))
        tally = message.get("tally")
        told = None if tally is None else Tally.unpack(tally)
        if told is None:
            self._said.pop(host, None)
        else:
            self._said[host] = serial, told
        if not self._said:
            self._remind_at = None
        elif self._remind_at is None:
            self._began, self._remind_at = now, now + REMIND_S

    def answers(self) -> Iterator[tuple[str, Message]]:
        """What each host is to be told, once all ranks have asked or can't agree; else nothing."""
        why = self._different_worlds()
        # Cheap, as it is asked with each of thousands of ranks; who is counted twice is seen below.
        asked = sum(len(tally.ranks) for _, tally in self._said.values())
        if not why and not 0 < self._world() <= asked:
            return
        why = why or self._twice()
        answer: Message = {"type": "agreed", "why": why}
        if not why:
            whole = merge(tally for _, tally in self._said.values()).pack()
            # All ranks are in it, and nobody goes back further than to the newest.
            answer["tally"] = {**whole, "ranks": [], "keys": whole["keys"][:1]}
        said, self._said, self._remind_at = self._said, {}, None
        for host, (serial, _) in said.items():
            yield host, {**answer, "serial": serial}

    def next_due(self) -> float | None:
        """When those that wait are to be told for whom; None while nobody waits."""
        return self._remind_at

    def reminders(self, now: float) -> Iterator[tuple[str, Message]]:
        """What each host with waiting ranks is told when that is due."""
        if self._remind_at is None or now < self._remind_at:
            return
        self._remind_at = now + REMIND_S
        missing, world = self._missing(), self._world()
        named = ", ".join(map(str, missing[:_NAMED])) + (" …" if len(missing) > _NAMED else "")
        text = (
            f"checkpoints: after {now - self._began:.0f} s, {len(missing)} of {world} ranks have not "
            f"called resume() yet: {named}"
        )
        for host in self._said:
            yield host, {"type": "unagreed", "text": text}

    def _world(self) -> int:
        return next((tally.world for _, tally in self._said.values()), 0)

    def _missing(self) -> list[int]:
        """The ranks that have not asked."""
        asked = {rank for _, tally in self._said.values() for rank in tally.ranks}
        return [rank for rank in range(self._world()) if rank not in asked]

    def _different_worlds(self) -> str:
        """Two hosts whose ranks can't be of one world; empty when all can."""
        world = self._world()
        for host, (_, tally) in self._said.items():
            if tally.world != world:
                worlds = f"{world} on {next(iter(self._said))}, {tally.world} on {host}"
                return f"the ranks that call resume() say different numbers of ranks: {worlds}"
        return ""

    def _twice(self) -> str:
        """A rank that two hosts have; empty when there is none."""
        owner: dict[int, str] = {}
        for host, (_, tally) in self._said.items():
            for rank in tally.ranks:
                if rank in owner:
                    return f"rank {rank} calls resume() on {owner[rank]} and on {host}"
                owner[rank] = host
        return ""
