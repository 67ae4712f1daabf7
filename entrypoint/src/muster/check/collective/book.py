"""Who takes part, where their worlds meet, and what is left out: told before the first world. Effects: a port is looked for."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.check.collective import rows
from muster.check.collective.worlds import Ranks
from muster.check.finding import Here
from muster.model import Plan

_OF_HOROVOD = ("horovodrun", "mpirun")


@dataclass(frozen=True)
class Book:
    """What the hosts have told each other."""

    hosts: tuple[str, ...] = ()
    """Of the world, in its order."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """A free port on each: the worlds that begin there meet at it."""
    kinds: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Of each its instance type and its number of ranks."""
    gpus: bool = False
    """Whether the ranks of all of them use GPUs."""
    whole: bool = False
    """Whether all are of one kind, and use all of their GPUs."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """By check, why it is left out: what one host refuses, all leave out."""


def told_of(plan: Plan, ranks: Ranks, here: Here, *, full: bool) -> dict[str, Any]:
    """What this host tells."""
    if is_outside(plan):
        return {}
    alone = here.settings.exec_only
    return {
        # With MUSTER_EXEC=1 the hosts don't meet.
        "hosts": [plan.host] if alone else plan.hosts,
        "port": _free_port(),
        "kind": [here.job.instance_type, ranks.count],
        "gpus": ranks.gpus,
        "whole": ranks.count == here.job.machine.gpus,
        "refused": _refused(plan, ranks, here, full=full),
    }


def _refused(plan: Plan, ranks: Ranks, here: Here, *, full: bool) -> dict[str, str]:
    """By check, why this host leaves it out; of several reasons the last."""
    together = (rows.JOB, rows.HOROVOD, rows.PAIRS)
    every = (rows.BURN, rows.HOST, *together)
    several = len(plan.hosts) > 1
    reasons = (
        (not full, (rows.BURN,), "only at the level full"),
        (not several, (rows.HOST,), "one host: collective.job is the same"),
        (max(ranks.sizes) == 1, (rows.HOST,), "one rank a host has nothing to add up"),
        (not several, (rows.PAIRS,), "one host"),
        (sum(ranks.sizes) == 1, (rows.HOST, *together), "one rank has nothing to add up"),
        (not ranks.horovod, (rows.HOROVOD,), "the image has no Horovod"),
        (
            plan.launcher not in _OF_HOROVOD,
            (rows.HOROVOD,),
            f"the launcher is {plan.launcher}: the ranks don't use Horovod",
        ),
        (
            plan.launcher == "plain",
            together,
            "the launcher is plain: hosts train by themselves",
        ),
        (here.settings.exec_only and several, together, "with MUSTER_EXEC=1 the hosts don't meet"),
        (
            ranks.gpus and ranks.count > here.job.machine.gpus,
            every,
            "there are more ranks than GPUs",
        ),
        (not ranks.python, every, "there is no Python for the ranks"),
    )
    refused = {name: why for applies, names, why in reasons if applies for name in names}
    off = [check.name for check in rows.CHECKS]
    severities = here.settings.severities
    return refused | {name: "it is switched off" for name in off if severities.get(name) == "off"}


def make_book(data: Mapping[str, Any]) -> dict[str, Any]:
    """The leader's answer, as it travels. Pure."""
    taking_part = {host: told for host, told in data.items() if told}
    refused: dict[str, str] = {}
    for told in taking_part.values():
        refused = told["refused"] | refused
    kinds = {host: told["kind"] for host, told in taking_part.items()}
    alike = len({tuple(kind) for kind in kinds.values()}) == 1
    return {
        "hosts": next((told["hosts"] for told in taking_part.values()), []),
        "ports": {host: told["port"] for host, told in taking_part.items()},
        "kinds": kinds,
        "gpus": all(told["gpus"] for told in taking_part.values()),
        "whole": alike and all(told["whole"] for told in taking_part.values()),
        "refused": refused,
    }


def read_book(answer: Mapping[str, Any]) -> Book:
    """The answer, as it has come. Pure."""
    kinds = {host: (str(kind[0]), int(kind[1])) for host, kind in answer["kinds"].items()}
    return Book(**{**answer, "hosts": tuple(answer["hosts"]), "kinds": kinds})


def is_outside(plan: Plan) -> bool:
    """Whether this host is of an instance group that the job does not name for training."""
    return plan.rank_env.get("MUSTER_IN_WORLD") == "0"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
