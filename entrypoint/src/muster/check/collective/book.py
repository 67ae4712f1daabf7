"""Who takes part, where their worlds meet, and what is left out: told before the first world. Effects: a port is looked for."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.check.collective import rows
from muster.check.collective.worlds import Ranks
from muster.model import Plan
from muster.settings import Settings

_OF_HOROVOD = ("horovodrun", "mpirun")


@dataclass(frozen=True)
class Book:
    """What the hosts have told each other."""

    hosts: tuple[str, ...]
    """Of the world, in its order."""
    ports: Mapping[str, int]
    """A free port on each: the worlds that begin there meet at it."""
    refused: Mapping[str, str]
    """By check, why it is left out: what one host refuses, all leave out."""


def told_of(plan: Plan, ranks: Ranks, settings: Settings, *, full: bool) -> dict[str, Any]:
    """What this host tells."""
    if is_outside(plan):
        return {"hosts": [], "port": 0, "refused": {}}
    refused = {} if full else {rows.BURN: "only at the level full"}
    if sum(ranks.sizes) == 1:
        refused |= dict.fromkeys(
            (rows.HOST, rows.JOB, rows.HOROVOD, rows.PAIRS), "one rank has nothing to add up"
        )
    elif len(ranks.sizes) == 1:
        refused[rows.HOST] = "one host: collective.job is the same"
    elif max(ranks.sizes) == 1:
        refused[rows.HOST] = "one rank a host has nothing to add up"
    if not ranks.horovod or plan.launcher not in _OF_HOROVOD:
        refused[rows.HOROVOD] = "the ranks don't use Horovod"
    if plan.launcher == "plain":
        why = "the launcher is plain: hosts train by themselves"
        refused |= dict.fromkeys((rows.JOB, rows.PAIRS), why)
    for check in rows.CHECKS:
        if settings.severities.get(check.name) == "off":
            refused[check.name] = "it is switched off"
    return {"hosts": plan.hosts, "port": _free_port(), "refused": refused}


def make_book(data: Mapping[str, Any]) -> tuple[Any, ...]:
    """The leader's answer, as it travels. Pure."""
    taking_part = {host: told for host, told in data.items() if told["hosts"]}
    hosts = next(iter(taking_part.values()))["hosts"] if taking_part else []
    ports = {host: told["port"] for host, told in taking_part.items()}
    refused: dict[str, str] = {}
    for told in taking_part.values():
        refused = told["refused"] | refused
    return hosts, ports, refused


def is_outside(plan: Plan) -> bool:
    """Whether this host is of an instance group that the job does not name for training."""
    return plan.rank_env.get("MUSTER_IN_WORLD") == "0"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
