"""Which host is slow: every pair of hosts sends in both directions, twice. Effects: memory, network.

Rank k of one host speaks with rank k of the other, so that all of a host's network cards work. In each step the
hosts form pairs that have nothing to do with each other.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster_perf.world import World
from muster_perf.world import hosts as distinct

if TYPE_CHECKING:
    import torch

ROUNDS = 2
_SHOWN = 5
_SLOW = 0.85
"""Of the pairs' median: below it a pair is marked. A pair that shares a bad host is, too."""

Pair = tuple[int, int]


@dataclass(frozen=True)
class HostView:
    """The rates between hosts."""

    hosts: tuple[str, ...]
    size: int
    """Bytes of one message."""
    rates: Mapping[Pair, float]
    """GB/s that a host of the pair sends, all its ranks together; the better of the rounds."""

    def of(self, host: int) -> list[float]:
        """A host's rates, the slowest first."""
        return sorted(rate for two, rate in self.rates.items() if host in two)

    def slowest(self) -> list[tuple[Pair, float]]:
        """The pairs, the slowest first."""
        return sorted(self.rates.items(), key=lambda item: item[1])


def schedule(hosts: int) -> list[list[Pair]]:
    """Steps of disjoint pairs that together are all pairs, each once. Pure.

    The circle method: one stays, the others turn.
    """
    seats: list[int | None] = [*range(hosts), *([None] if hosts % 2 else [])]
    steps = []
    for _ in range(len(seats) - 1):
        facing = zip(seats[: len(seats) // 2], reversed(seats), strict=False)
        steps.append([(min(a, b), max(a, b)) for a, b in facing if a is not None and b is not None])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return steps


def look(world: World, names: Sequence[str], size: int, iterations: int) -> HostView:
    """Measures all pairs; the same on every rank.

    Args:
        world: the ranks.
        names: each rank's host.
        size: bytes of one message.
        iterations: messages that are timed together.
    """
    import torch  # noqa: PLC0415

    hosts = distinct(names)
    ranks = [[rank for rank, name in enumerate(names) if name == host] for host in hosts]
    mine = hosts.index(names[world.rank])
    place = ranks[mine].index(world.rank)
    send, receive = (torch.ones(size, dtype=torch.uint8, device=world.device) for _ in range(2))
    best: dict[Pair, float] = {}
    for _ in range(ROUNDS):
        for step in schedule(len(hosts)):
            two = next((each for each in step if mine in each), None)
            other = ranks[two[0] if two[1] == mine else two[1]] if two else []
            rate = 0.0
            if place < len(other):
                seconds = _time(world, other[place], send, receive, iterations)
                rate = size / 1e9 / seconds
            told = [each for (each,) in world.exchange(rate)]
            for one, another in step:
                # A host sends what its ranks send; both hosts of a pair send alike, so the slower one is told.
                total = min(sum(told[rank] for rank in ranks[host]) for host in (one, another))
                best[one, another] = max(best.get((one, another), 0.0), total)
    return HostView(tuple(hosts), size, best)


def _time(
    world: World, peer: int, send: torch.Tensor, receive: torch.Tensor, iterations: int
) -> float:
    """Seconds of one exchange with `peer`."""
    from muster_perf.calls import pair  # noqa: PLC0415  (with torch)

    call = pair(peer, send, receive)
    call()
    world.synchronize()
    begin = time.perf_counter()
    for _ in range(iterations):
        call()
    world.synchronize()
    return (time.perf_counter() - begin) / iterations


def lines(view: HostView) -> list[str]:
    """The view as lines that begin with `#`. Pure."""
    count = len(view.hosts)
    if count == 1:
        return ["#", "# By host: there is one host, and no pair to compare"]
    how = f"{view.size} bytes in both directions at once, the better of {ROUNDS} rounds"
    told = [
        "#",
        f"# By host: all pairs ({len(view.rates)}), {how}; GB/s that a host sends",
        f"#  {'host':<24}  {'least':>8}  {'median':>8}  {'most':>8}",
    ]
    for number, host in enumerate(view.hosts):
        rates = view.of(number)
        row = (rates[0], statistics.median(rates), rates[-1])
        told.append(f"#  {host:<24}  " + "  ".join(f"{rate:8.2f}" for rate in row))
    middle = statistics.median(view.rates.values())
    told.append("# Slowest pairs")
    for (one, another), rate in view.slowest()[:_SHOWN]:
        part = rate / middle if middle else 0.0
        mark = "  slow" if part < _SLOW else ""
        names = f"{view.hosts[one]} {view.hosts[another]}"
        told.append(f"#  {names:<48}  {rate:8.2f}  {part:5.2f} of the median{mark}")
    if count == 2:  # noqa: PLR2004
        told.append("# With two hosts the pair can't tell which of them is slow")
    return told


def document(view: HostView) -> dict[str, object]:
    """The view for the JSON file. Pure."""
    pairs = [
        {"hosts": [view.hosts[one], view.hosts[another]], "send_gb_s": round(rate, 6)}
        for (one, another), rate in view.slowest()
    ]
    return {"bytes": view.size, "rounds": ROUNDS, "pairs": pairs}
