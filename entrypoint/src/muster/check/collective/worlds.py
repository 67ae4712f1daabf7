"""Ranks of the benchmark, where the job's ranks will be: started, waited for, and ended. Effects: processes, files.

Each is a child of its host's harness, with the variables that the job's own will have, and ends with it. One that doesn't
end costs its time and no more, and a new world is always new processes: a communicator that has failed is of no further use.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from muster import tied
from muster.check.process import end_group
from muster.mask import mask_text
from muster.model import Plan

Kind = Literal["ok", "failed", "late", "absent", "broken", "idle"]
MODULE = "muster_perf"
LIMIT_S = 60.0
"""What ranks that have met may take."""
MEET_S = 120.0
"""What ranks may take to meet: a first import of torch reads gigabytes."""
_LOOK_S = 0.1
_TAIL = 300
_LOG_LIMIT = 1024 * 1024
_ABSENT = (
    "No module named muster_perf",
    "No module named 'muster_perf",
    "No module named 'torch",
    "Horovod can't be imported",
)
_TEMPORARY = (None, "/dev/shm")
_NOT_OURS = ("NCCL_TESTS_MIN_BW", "MUSTER_BASELINE")
"""What a user has set for the benchmark by hand."""
_NCCL = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}


@dataclass(frozen=True)
class Ranks:
    """The ranks of the job's world, and those of this host."""

    python: str
    """The script's, which has torch; empty where there is none."""
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
        self._ranks = ranks
        self._env = {name: value for name, value in env.items() if name not in _NOT_OURS}
        self._env |= plan.env
        self._living: list[subprocess.Popen[bytes]] = []
        self._ended = False
        self._lock = threading.Lock()

    def hold(
        self, world: World, words: Sequence[str], more: Mapping[str, str], meet_s: float
    ) -> Told:
        """Runs the ranks of a world here to their end.

        Args:
            world: where they are.
            words: what each runs, behind Python's `-m`.
            more: variables for them.
            meet_s: how long they may take to meet.
        """
        began = time.monotonic()
        try:
            with _folder() as folder:
                try:
                    for local in range(world.count):
                        self._start(world, words, more, folder, local)
                    ends, late = self._wait(folder, meet_s)
                finally:
                    self._end_ranks()
                told = _understand(world, folder, ends, late)
        except OSError as error:
            told = Told("broken", f"the benchmark can't be started: {error.strerror or error}")
        return replace(told, seconds=time.monotonic() - began)

    def end(self) -> None:
        """Ends what lives; nothing is started any more. From any thread."""
        self._ended = True
        self._end_ranks()

    def _end_ranks(self) -> None:
        with self._lock:
            living, self._living = self._living, []
        for child in living:
            end_group(child)

    def _start(
        self,
        world: World,
        words: Sequence[str],
        more: Mapping[str, str],
        folder: str,
        local: int,
    ) -> None:
        rank = world.first + local
        written = [] if rank else ["-J", os.path.join(folder, _RESULT)]
        place = {
            "RANK": rank,
            "LOCAL_RANK": local,
            "WORLD_SIZE": world.size,
            "LOCAL_WORLD_SIZE": world.count,
            "MASTER_ADDR": world.address,
            "MASTER_PORT": world.port,
            "MUSTER_EXPECT_WORLD": world.size,
            "MUSTER_MET": os.path.join(folder, f"{_MET}{local}"),
        }
        variables = {name: str(value) for name, value in place.items()}
        if self._ranks.gpus:
            variables |= _NCCL | {"NCCL_DEBUG_FILE": os.path.join(folder, "nccl.%p")}
        with open(os.path.join(folder, f"rank-{local}"), "wb") as output, self._lock:
            if self._ended:
                return  # Who has asked is not there any more.
            child = subprocess.Popen(
                tied.command([self._ranks.python, "-m", *words, *written]),
                env={**self._env, **more, **variables},
                cwd=folder,  # Not the code's: a muster_perf.py or a types.py there is the script's own.
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            self._living.append(child)

    def _wait(self, folder: str, meet_s: float) -> tuple[list[int | None], str]:
        """The codes of those that have ended, and what the others were late for; empty when nothing.

        One that fails ends the wait: the others would wait for it.
        """
        children, met = list(self._living), False
        deadline = time.monotonic() + meet_s
        while None in (ends := [child.poll() for child in children]) and not any(ends):
            if not met and any(name.startswith(_MET) for name in os.listdir(folder)):
                met, deadline = True, time.monotonic() + LIMIT_S
            if time.monotonic() > deadline:
                return ends, f"ended within {LIMIT_S:.0f}" if met else f"met within {meet_s:.0f}"
            time.sleep(_LOOK_S)
        return ends, ""


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """A folder for what the ranks write. Raises OSError where there can be none."""
    for parent in _TEMPORARY:
        try:
            made = tempfile.TemporaryDirectory(
                prefix="muster-check-", dir=parent, ignore_cleanup_errors=True
            )
        except OSError:
            if parent == _TEMPORARY[-1]:
                raise
            continue
        with made as folder:
            yield folder
        return


_MET = "met-"
_RESULT = "result.json"


def _understand(world: World, folder: str, ends: Sequence[int | None], late: str) -> Told:
    figures = _figures(folder)
    if late:
        return Told("late", f"{world.size} ranks have not {late} s", figures)
    for local, status in enumerate(ends):
        if status:
            said = _last_line(os.path.join(folder, f"rank-{local}"))
            if any(absent in said for absent in _ABSENT):
                return Told("absent", f"in the script's Python: {said}")
            if status < 0:
                said = f"killed by signal {-status}"
            return Told(
                "failed", f"rank {world.first + local}: {said or f'status {status}'}", figures
            )
    return Told("ok", "", figures)


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
