"""Ranks of the benchmark, where the job's ranks will be: started, waited for, and ended. Effects: processes, files.

Each is a child of its host's harness, with the variables that the job's own will have. One that doesn't end costs its
time and no more, and a new world is always new processes: a communicator that has failed is of no further use.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from muster.check.process import end_group
from muster.mask import mask_text
from muster.model import Plan

Kind = Literal["ok", "failed", "late", "absent", "broken", "idle"]
MODULE = "muster_perf"
LIMIT_S = 60.0
_LOOK_S = 0.1
_TAIL = 300
_LOG_LIMIT = 1024 * 1024
_ABSENT = "No module named"
_NCCL = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}


@dataclass(frozen=True)
class Ranks:
    """The ranks of the job's world, and those of this host."""

    python: str
    """The script's, which has torch."""
    sizes: tuple[int, ...]
    """Ranks of each host of the world, in its order."""
    index: int
    """This host's place in it."""
    gpus: bool
    horovod: bool = False
    """Whether they may use Horovod."""

    @property
    def count(self) -> int:
        """Ranks here."""
        return self.sizes[self.index]


@dataclass(frozen=True)
class World:
    """A world of some hosts, as one of them sees it."""

    address: str
    """Where the ranks meet."""
    port: int
    first: int
    """The lowest rank here."""
    count: int
    """Ranks here."""
    size: int


@dataclass(frozen=True)
class Told:
    """What this host's ranks of a world have come to."""

    kind: Kind
    text: str = ""
    """Why it isn't ok. One line."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """What rank 0 has written, on its host."""
    seconds: float = 0.0

    def pack(self) -> list[Any]:
        """As it travels between hosts."""
        return [self.kind, self.text, dict(self.figures), round(self.seconds, 3)]

    @classmethod
    def unpack(cls, value: Any) -> Told:
        """What another host tells; one that can't be understood has told nothing."""
        try:
            kind, text, figures, seconds = value
            return cls(kind, str(text), dict(figures), float(seconds))
        except (ValueError, TypeError):
            return IDLE


IDLE = Told("idle")
"""Of a host that takes no part."""


class Worlds:
    """Starts this host's ranks of one world after the other.

    Args:
        plan: this host's; nothing of it is changed.
        ranks: this host's part.
        env: the job's programs' environment.
    """

    def __init__(self, plan: Plan, ranks: Ranks, env: Mapping[str, str]) -> None:
        self._plan = plan
        self._ranks = ranks
        self._env = {**env, **plan.env}
        self._living: list[subprocess.Popen[bytes]] = []

    def hold(self, world: World, words: Sequence[str], more: Mapping[str, str]) -> Told:
        """Runs the ranks of a world here to their end.

        Args:
            world: where they are.
            words: what each runs, behind Python's `-m`.
            more: variables for them.
        """
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="muster-check-") as folder:
            try:
                for local in range(world.count):
                    self._living.append(self._start(world, words, more, folder, local))
                ends, late = self._wait()
            except OSError as error:
                why = f"the benchmark can't be started: {error.strerror or error}"
                return Told("broken", why)
            finally:
                self.end()
            told = _understand(world, folder, ends, late=late)
        return Told(told.kind, told.text, told.figures, time.monotonic() - began)

    def end(self) -> None:
        """Ends what lives."""
        while self._living:
            end_group(self._living.pop())

    def _start(
        self,
        world: World,
        words: Sequence[str],
        more: Mapping[str, str],
        folder: str,
        local: int,
    ) -> subprocess.Popen[bytes]:
        rank = world.first + local
        written = [] if rank else ["-J", os.path.join(folder, _RESULT)]
        place = {
            "RANK": rank,
            "LOCAL_RANK": local,
            "WORLD_SIZE": world.size,
            "LOCAL_WORLD_SIZE": world.count,
            "MASTER_PORT": world.port,
            "MUSTER_EXPECT_WORLD": world.size,
        }
        variables = {name: str(value) for name, value in place.items()}
        if self._ranks.gpus:
            variables |= _NCCL | {"NCCL_DEBUG_FILE": os.path.join(folder, "nccl.%p")}
        with open(os.path.join(folder, f"rank-{local}"), "wb") as output:
            return subprocess.Popen(
                [self._ranks.python, "-m", *words, *written],
                env={**self._env, **more, **variables, "MASTER_ADDR": world.address},
                cwd=folder,  # Not the code's: a muster_perf.py or a types.py there is the script's own.
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _wait(self) -> tuple[list[int | None], bool]:
        """The codes of those that have ended, and whether the others were late.

        One that fails ends the wait: the others would wait for it.
        """
        deadline = time.monotonic() + LIMIT_S
        while None in (ends := [child.poll() for child in self._living]) and not any(ends):
            if time.monotonic() > deadline:
                return ends, True
            time.sleep(_LOOK_S)
        return ends, False


_RESULT = "result.json"


def _understand(world: World, folder: str, ends: Sequence[int | None], *, late: bool) -> Told:
    if late:
        return Told("late", f"{world.size} ranks have not ended within {LIMIT_S:.0f} s")
    for local, status in enumerate(ends):
        if status:
            said = _last_line(os.path.join(folder, f"rank-{local}"))
            if _ABSENT in said and MODULE in said:
                return Told("absent", f"the script's Python has no {MODULE}")
            if status < 0:
                said = f"killed by signal {-status}"
            return Told("failed", f"rank {world.first + local}: {said or f'status {status}'}")
    return Told("ok", "", _figures(folder))


def _figures(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        with open(os.path.join(folder, _RESULT), encoding="utf-8") as file:
            found["result"] = json.load(file)
    except (OSError, ValueError):
        pass  # Rank 0 is on another host.
    logs = [name for name in sorted(os.listdir(folder)) if name.startswith("nccl.")]
    for name in logs:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            found["log"] = found.get("log", "") + file.read(_LOG_LIMIT)
    return found


def _last_line(path: str) -> str:
    """The last line of a rank's output that says something."""
    with open(path, encoding="utf-8", errors="replace") as file:
        said = [line.strip() for line in file.read()[-8192:].splitlines() if line.strip(" #")]
    return mask_text(said[-1])[:_TAIL] if said else ""
