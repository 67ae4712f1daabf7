"""The checkpoints of one folder, for one rank: what to save, where to go on, what to remove.

Effects: files, the harness's socket or torch.distributed (agreeing.py), a line in the log.
"""

from __future__ import annotations

import json
import logging
import os
from typing import Any

from muster.tally import NONE, step_of
from muster.training.checkpoint import agreeing, content, sharded, shards
from muster.training.checkpoint.place import CheckpointError, Place, find_place
from muster.training.checkpoint.shards import Scope

_NO_RUN = "0" * 12
"""What saves is called before resume(): the ranks have not agreed on anything better."""
_OLDER = 1
"""Steps kept beside the newest at least: another rank may have been killed in the newest."""
_log = logging.getLogger("muster.training.checkpoint")


class Store:
    """Use one for a folder and a process: it knows where this run has begun.

    Args:
        place: this rank and its folder.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._run = _NO_RUN
        self._base: str | None = None
        """The key at which this run has gone on; None when it began anew."""
        self._resumed = False
        self._again = False
        """Whether this run has saved, or tried to, the step at which it went on."""

    def save(self, state: object, step: int, keep: int, scope: Scope) -> str | None:
        """Writes this rank's part of a step, and removes old steps. Where it is; None for no part."""
        _check(step, keep)
        place, spared = self.place, self._base_run(step)
        self._again |= spared is not None
        if (scope == "leader" and place.rank) or (scope == "host" and place.local_rank):
            return None
        name = f"{shards.stem(place, scope, self._run)}.{content.kind_of(state)}"
        path = os.path.join(shards.step_folder(place.folder, step), name)
        shards.write_at_once(path, lambda file: content.write(state, file))
        # Other ranks may still go back to what this run began with: it stays until the training passes it.
        shards.remove_same(place.folder, step, name, spared)
        self._finish(step, keep, scope)
        return path

    def save_sharded(self, state: dict[str, Any], step: int, keep: int) -> str:
        """The same for a sharded state, all ranks together. Where its files are."""
        _check(step, keep)
        self._again |= self._base_run(step) is not None
        path = sharded.save(state, step, self.place, self._run)
        for kept in self._prune(step, keep):
            sharded.remove_replaced(self.place.folder, kept, self.place, self._run)
        return path

    def resume(self) -> int | None:
        """The newest step that all ranks have whole. All ranks must call it.

        Raises:
            CheckpointError: see agreeing.agree and agreeing.choose.
        """
        place = self.place
        shards.remove_left_over(place.folder, place)
        keys, foreign = [], 0
        for step in shards.steps(place.folder):
            keys += [f"{step}.{run}" for run in self._runs(step)]
            worlds = [shard.world for shard in shards.shards(place.folder, step)]
            foreign = foreign or next((n for n in worlds if n not in (0, place.world)), 0)
        whole = agreeing.agree(agreeing.count(place, keys, foreign), os.environ)
        chosen = agreeing.choose(whole)
        self._resumed, self._base, self._run = True, chosen, whole.run
        self._again = False
        step = step_of(chosen) if chosen else NONE
        if place.rank == 0 and whole.newest > step:
            begins = f"goes on at step {step}" if chosen else "begins anew"
            what = "step %d is not whole on all ranks, as on %s: the training %s"
            _log.warning(what, whole.newest, whole.poorest, begins)
        return step if chosen else None

    def load(self, step: int, *, weights_only: bool) -> Any:
        """This rank's state of a step.

        Raises:
            CheckpointError: this rank has none, or it can't be read.
        """
        found = [s for s in shards.shards(self.place.folder, step) if shards.is_for(s, self.place)]
        order = ("rank", "host", "leader")
        best = min(
            found,
            key=lambda s: (-self._worth(step, s.run), order.index(s.scope), -int(s.run, 16)),
            default=None,
        )
        if best is None:
            raise self._nothing(step)
        return content.read(best.path, weights_only=weights_only)

    def load_sharded(self, state: dict[str, Any], step: int) -> None:
        """Loads a sharded state in place, all ranks together.

        Raises:
            CheckpointError: it is not whole for all ranks.
        """
        runs = sharded.whole_everywhere(self.place.folder, step, self.place)
        best = max(runs, key=lambda run: (self._worth(step, run), run), default=None)
        if best is None:
            raise self._nothing(step)
        sharded.load(state, runs[best], self.place)

    def _runs(self, step: int) -> set[str]:
        """The runs whose part of this step is whole for this rank."""
        folder = self.place.folder
        own = {s.run for s in shards.shards(folder, step) if shards.is_for(s, self.place)}
        return own | {run for run, _ in sharded.whole_runs(folder, step)}

    def _base_run(self, step: int) -> str | None:
        """The run that saved the step at which this run went on; None where it is another step."""
        if self._base is None or step_of(self._base) != step:
            return None
        return self._base.partition(".")[2]

    def _worth(self, step: int, run: str) -> int:
        """Whose state of a step is loaded: what this run has saved again, else what all ranks went on from."""
        base = self._base_run(step)
        if base and self._again and run.startswith(self._run):
            return 2
        return int(run == base)

    def _nothing(self, step: int) -> CheckpointError:
        place = self.place
        others = {s.world for s in shards.shards(place.folder, step)} - {0, place.world}
        if others:
            return CheckpointError(
                f"step {step} in {place.folder} was saved by {max(others)} ranks, and this job has "
                f"{place.world}: start as many"
            )
        return CheckpointError(
            f"step {step} in {place.folder} has nothing for {place.label}: load() what resume() returned"
        )

    def _finish(self, step: int, keep: int, scope: Scope) -> None:
        """This rank's part is whole: tells so, where it was the last of this host, and removes old steps."""
        place = self.place
        here = {
            shard.rank
            for shard in shards.shards(place.folder, step)
            if (shard.scope, shard.run, shard.host) == (scope, self._run, place.host)
            and shard.world in (0, place.world)
        }
        if scope != "rank" or len(here) == place.local_world:
            latest = {"step": step, "run": self._run, "world": place.world, "scope": scope}
            text = json.dumps(latest).encode() + b"\n"
            path = os.path.join(place.folder, f"{place.host}.latest.json")
            shards.write_at_once(path, lambda file: file.write(text))
        self._prune(step, keep)

    def _prune(self, step: int, keep: int) -> list[int]:
        """Removes the steps before this one but for the newest that some rank may still need: these.

        When this rank has saved a step, all ranks have saved the one before: between two saves the
        ranks have met, in a collective operation. So two are enough for one that all have.
        """
        older = [each for each in shards.steps(self.place.folder) if each < step]
        alive = [each for each in older if self._is_alive(each)]
        kept = alive[: max(_OLDER, keep - 1)]
        shards.prune(self.place.folder, step, kept)
        return kept

    def _is_alive(self, step: int) -> bool:
        """Whether it is of this run or one that this run goes back to; else it leads nowhere."""
        whole = self._runs(step)
        # A sharded step of this run is not whole where hosts share nothing: its own part is all a rank sees.
        mine = whole | sharded.own_runs(self.place.folder, step, self.place)
        if not self._resumed:
            return bool(mine)
        if any(run.startswith(self._run) for run in mine):
            return True
        return bool(self._base and whole and step <= step_of(self._base))


def open_store(folder: str | None = None) -> Store:
    """The process's store of a folder."""
    place = find_place(os.environ, folder)
    return _stores.setdefault(place, Store(place))


_stores: dict[Place, Store] = {}


def _check(step: int, keep: int) -> None:
    if step < 0 or keep < 1:
        raise ValueError(
            f"step={step}, keep={keep}: a step counts from 0, and one at least is kept"
        )
