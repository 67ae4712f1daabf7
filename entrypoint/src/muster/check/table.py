"""The verdict over all hosts, and the table in the leader's log. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.check.finding import STATUSES, Result

_SHOWN = 4


@dataclass(frozen=True)
class Verdict:
    """Whether the job may begin."""

    host: str = ""
    """The first host with a FAIL, in the job's order; empty when all may go on."""
    result: Result | None = None
    """What has failed there."""
    others: int = 0
    """More FAILs, on this host and on others."""


def judge(found: Mapping[str, Sequence[Result]], by_all: Sequence[str] = ()) -> Verdict:
    """The verdict of all hosts' results, by host in the job's order.

    Args:
        found: the results.
        by_all: the checks that compare hosts: what a host has found on itself says more than that it differs.
    """
    failed = [
        (host, one) for host, results in found.items() for one in results if one.status == "FAIL"
    ]
    failed.sort(key=lambda item: item[1].name in by_all)
    if not failed:
        return Verdict()
    host, result = failed[0]
    return Verdict(host, result, len(failed) - 1)


def lines(
    found: Mapping[str, Sequence[Result]], *, whole: bool = False, timed: bool = False
) -> list[str]:
    """The table: a line for each check that is not a PASS or SKIP everywhere, and one that counts the rest.

    Args:
        found: each host's results, by host in the job's order.
        whole: a line for every check.
        timed: with the seconds that each took, on the slowest of the hosts that a line speaks of.
    """
    by_check: dict[str, list[tuple[str, Result]]] = {}
    for host, results in found.items():
        for result in results:
            by_check.setdefault(result.name, []).append((host, result))
    counted = dict.fromkeys(STATUSES, 0)
    blocks: dict[tuple[str, ...], list[str]] = {}
    for name, told in by_check.items():
        worst = min((result.status for _, result in told), key=STATUSES.index)
        counted[worst] += 1
        if whole or worst not in ("PASS", "SKIP"):
            block = (worst, name if whole else "", *_texts(worst, told, len(found) > 1, timed))
            blocks.setdefault(block, []).append(name)
    total = sum(counted.values())
    states = ", ".join(f"{count} {status}" for status, count in counted.items() if count)
    hosts = f" on {len(found)} hosts" if len(found) > 1 else ""
    shown = [
        line.replace(_NAME, f"{_named(names):<18}")
        for (_, _, *texts), names in blocks.items()
        for line in texts
    ]
    return [f"checks: {total}{hosts}: {states}" if total else "checks: none", *shown]


_NAME = "\0"
"""Stands for the names of the checks, while lines are compared."""


def _named(names: list[str]) -> str:
    """Checks that say the same: one driver that doesn't answer is one line."""
    return names[0] if len(names) == 1 else f"{names[0]}, {len(names) - 1} more"


def _texts(
    worst: str,
    told: list[tuple[str, Result]],
    several: bool,
    timed: bool,
) -> list[str]:
    """One line for each thing that was seen, with the hosts that have seen it; and what to do, once."""
    alike: dict[str, list[tuple[str, Result]]] = {}
    for host, result in told:
        if result.status == worst:
            alike.setdefault(result.evidence, []).append((host, result))
    rows = []
    for evidence, seen in alike.items():
        hosts = [host for host, _ in seen]
        named = ", ".join(hosts[:_SHOWN]) + (
            f" and {len(hosts) - _SHOWN} more" if len(hosts) > _SHOWN else ""
        )
        took = f"{max(result.seconds for _, result in seen):>6.2f} s  " if timed else ""
        rows.append(f"  {worst:<7} {_NAME} {took}{evidence}" + (f" ({named})" if several else ""))
    wrong = worst in ("WARN", "FAIL")
    remedies = [result.remedy for _, result in told if wrong and result.status == worst]
    return rows + [f"{'':<29}{line}" for line in dict.fromkeys(filter(None, remedies))]
