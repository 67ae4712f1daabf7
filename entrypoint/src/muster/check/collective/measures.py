"""What this host's ranks are asked to measure, and in which worlds. Effects: those of worlds.py."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.check import efa_counters
from muster.check.collective import judging, rows
from muster.check.collective.book import Book
from muster.check.collective.pairs import Pair
from muster.check.collective.worlds import (
    IDLE,
    LIMIT_S,
    MEET_S,
    MODULE,
    Ranks,
    Told,
    World,
    Worlds,
)
from muster.check.fabric import devices
from muster.check.finding import Finding, Here, skipped
from muster.check.gpu import growth
from muster.check.nccl_log import judge_network, read_log
from muster.model import Plan

if TYPE_CHECKING:
    from muster.check.gpu.asking import Look

_RECORDED = "muster-baseline.json"
"""In the checkpoints: a good run of the job, which the next one is held against."""
_HERE = "127.0.0.1"
_SIZE = {True: "64M", False: "4M"}
"""By whether there are GPUs: 64 MiB take milliseconds between them, and seconds over gloo on few cores."""
_SWEEP = {True: ("1M", "1G"), False: ("64K", "4M")}
_FACTOR = {True: "4", False: "8"}
_CALLS = {True: "5", False: "3"}
_GIVE_UP_S = "150"
"""When torch gives a call up: after the harness has, and only where that is not there any more."""
_BURN_S = {True: "10", False: "2"}


class Measures:
    """The worlds that this host has a part in.

    Args:
        plan: this host's.
        ranks: of the job, and this host's part.
        here: this host as the checks see it.
        book: what the hosts have told each other.
        worlds: starts the ranks.
        full: whether the whole job's world sweeps over sizes.
    """

    def __init__(
        self, plan: Plan, ranks: Ranks, here: Here, book: Book, worlds: Worlds, *, full: bool
    ) -> None:
        self._plan = plan
        self._ranks = ranks
        self._here = here
        self._book = book
        self._worlds = worlds
        self._full = full
        # A host outside of the world is told of the sizes, and has no use for them.
        self._sizes = dict(zip(plan.hosts, ranks.sizes, strict=False))
        self._log = ""
        """NCCL's, of the last world here."""
        self._addresses = {host: address for address, host in plan.names.items()}

    def burn(self) -> Told:
        """This host's ranks multiply matrices."""
        words = [f"{MODULE}.burn", "--seconds", _BURN_S[self._ranks.gpus]]
        return self._hold([self._plan.host], words, MEET_S)

    def alone(self) -> Told:
        """This host's ranks add up among themselves."""
        return self._hold([self._plan.host], self._all_reduce(_SIZE[self._ranks.gpus]), MEET_S)

    def together(self) -> Told:
        """All ranks of the job add up, where they will meet."""
        least, most = _SWEEP[self._ranks.gpus] if self._full else (_SIZE[self._ranks.gpus],) * 2
        words = self._all_reduce(least, most)
        if not self._ranks.gpus:
            return self._hold(self._book.hosts, words, MEET_S)
        links, efa = self._links(), efa_counters.snapshot(self._here)
        began = time.monotonic()
        told = self._hold(self._book.hosts, words, MEET_S)
        seconds = time.monotonic() - began
        beside = {
            rows.LINKS: growth.grown(links, self._links(), seconds),
            rows.EFA: efa_counters.grown(efa, efa_counters.snapshot(self._here), seconds),
        }
        if len(self._book.hosts) > 1:
            beside[rows.NETWORK] = judge_network(read_log(self._log), wanted=self._wants_efa())
        return judging.with_beside(told, beside)

    def by_horovod(self) -> Told:
        """The same by Horovod's operations."""
        sizes = ",".join(map(str, self._ranks.sizes))
        size = _SIZE[self._ranks.gpus]
        words = [f"{MODULE}.hvd", "--sizes", sizes, "-b", size]
        return self._hold(self._book.hosts, words, MEET_S)

    def in_pair(self, pairs: Sequence[Pair]) -> Told:
        """This host's ranks add up with those of the host that it is paired with."""
        mine = next((pair for pair in pairs if self._plan.host in pair), None)
        if mine is None:
            return IDLE
        # Their Python has been read before: what takes longer now is the network.
        return self._hold(mine, self._all_reduce(_SIZE[self._ranks.gpus]), LIMIT_S)

    def _links(self) -> Look | Finding:
        if rows.LINKS in self._book.refused:
            return skipped(self._book.refused[rows.LINKS])
        return growth.snapshot(self._here)

    def _all_reduce(self, least: str, most: str = "") -> list[str]:
        gpus = self._ranks.gpus
        return [
            *(MODULE, "all_reduce", "-b", least, "-e", most or least),
            *("-f", _FACTOR[gpus], "-n", _CALLS[gpus], "-T", _GIVE_UP_S),
        ]

    def _hold(self, hosts: Sequence[str], words: Sequence[str], meet_s: float) -> Told:
        sizes = [self._sizes[host] for host in hosts]
        place = hosts.index(self._plan.host)
        address, port = self._meeting_point(hosts)
        world = World(address, port, sum(sizes[:place]), sizes[place], sum(sizes))
        variables = {
            "SM_CURRENT_INSTANCE_TYPE": self._here.job.instance_type,
            "SM_CURRENT_HOST": self._plan.host,
        }
        recorded = self._recorded()
        if recorded and len(hosts) == len(self._book.hosts):
            variables["MUSTER_BASELINE"] = recorded
        told = self._worlds.hold(world, words, variables, meet_s)
        self._log = str(told.figures.get("log", ""))
        return judging.reduced(told)

    def _meeting_point(self, hosts: Sequence[str]) -> tuple[str, int]:
        """The job's own, or the first of these hosts'; one host needs no name of its own."""
        if len(hosts) == len(self._book.hosts) > 1:
            return self._plan.master_addr, self._plan.master_port
        first = hosts[0]
        if len(hosts) == 1:
            return _HERE, self._book.ports[first]
        return self._addresses.get(first, first), self._book.ports[first]

    def _recorded(self) -> str:
        """The job's own good run; empty where there is none."""
        here = self._here
        found = os.path.join(here.job.checkpoints, _RECORDED) if here.job.checkpoints else ""
        if here.settings.baseline:
            return os.path.abspath(here.settings.baseline)
        return found if os.path.exists(found) else ""

    def _wants_efa(self) -> bool:
        """Whether NCCL should go over EFA between hosts."""
        efa = self._here.settings.efa
        return efa == "require" or (efa == "auto" and bool(devices(self._here)))
