"""What ranks have of checkpoints, added up: from it follows where all of them can go on. Pure.

Ranks, hosts and the leader add up alike, and only sums travel: 512 hosts' steps would be megabytes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

KEYS = 64
"""Steps that a rank tells of, the newest: older ones nobody goes back to."""
NONE = -1
"""In the place of a step, where there is none."""
_KEY = re.compile(r"(\d{1,18})\.([0-9a-f]{12})(\.\d{4,8})?")
_RUN = re.compile(r"[0-9a-f]{12}")
_LARGEST_WORLD = 2**20
_NAME_LIMIT = 300


@dataclass(frozen=True)
class Tally:
    """What some ranks have whole, together."""

    world: int
    """Ranks of the job, as they say."""
    ranks: tuple[int, ...]
    """Those that are counted in, sorted."""
    keys: tuple[str, ...]
    """What all of them have whole, newest first: `STEP.RUN`, where RUN is the run that saved it.

    `STEP.RUN.0001` where a run has saved a sharded state of one step once more.
    """
    most: int
    """Steps of the rank that has the most."""
    newest: int
    """The newest step that any of them has; NONE for none."""
    poorest: str
    """The rank whose newest step is the oldest, its host and folder."""
    lowest: int
    """That step; NONE when it has none."""
    foreign: int
    """How many ranks saved what is here and can't be read by so many as there are; 0 for none."""
    run: str
    """What the first of the ranks would call this run."""

    def pack(self) -> dict[str, Any]:
        """The tally as it travels."""
        return dataclasses.asdict(self)

    @classmethod
    def unpack(cls, value: Any) -> Tally:
        """The tally in a message.

        Raises:
            ValueError: it is none.
        """
        fields = {field.name: field.type for field in dataclasses.fields(cls)}
        if not isinstance(value, dict) or value.keys() != fields.keys():
            raise ValueError("a tally with other fields")
        for name, kind in fields.items():
            wanted = {"int": int, "str": str}.get(str(kind), (list, tuple))
            if not isinstance(value[name], wanted) or isinstance(value[name], bool):
                raise ValueError(f"a tally with a wrong {name}")  # noqa: TRY004  (nonsense is one kind)
        made = cls(**{**value, "ranks": tuple(value["ranks"]), "keys": tuple(value["keys"])})
        if not made._sensible():
            raise ValueError("a tally that makes no sense")
        return made

    def _sensible(self) -> bool:
        return (
            0 < self.world <= _LARGEST_WORLD
            and all(type(rank) is int and 0 <= rank < self.world for rank in self.ranks)
            and len(self.keys) <= KEYS
            and all(isinstance(key, str) and _KEY.fullmatch(key) for key in self.keys)
            and len(self.poorest) <= _NAME_LIMIT
            and _RUN.fullmatch(self.run) is not None
        )


def step_of(key: str) -> int:
    """The step in `STEP.RUN`."""
    return int(key.partition(".")[0])


def newest_first(keys: Iterable[str]) -> tuple[str, ...]:
    """Keys by their steps; of one step, that of the latest run first: a run's name begins with its time."""
    return tuple(sorted(keys, key=lambda key: (step_of(key), key), reverse=True))


def merge(tallies: Iterable[Tally]) -> Tally:
    """The sum of at least one. Its `world` is the first's; whoever adds up sees that all have the same."""
    every = sorted(tallies, key=lambda tally: tally.ranks)
    common = set.intersection(*(set(tally.keys) for tally in every))
    poorest = min(every, key=lambda tally: tally.lowest)
    return Tally(
        world=every[0].world,
        ranks=tuple(sorted(rank for tally in every for rank in tally.ranks)),
        keys=newest_first(common)[:KEYS],
        most=max(tally.most for tally in every),
        newest=max(tally.newest for tally in every),
        poorest=poorest.poorest,
        lowest=poorest.lowest,
        foreign=max(tally.foreign for tally in every),
        run=every[0].run,
    )
