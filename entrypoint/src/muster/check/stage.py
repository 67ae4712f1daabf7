"""The checks as a stage: begun before code is fetched, concluded by all hosts together before the ranks begin.

Effects: those of the checks; the leader logs a table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from muster.check import compare, table
from muster.check.exchange import CHECK, Consulting, calling
from muster.check.finding import Here, Level, Result
from muster.check.reached import latency_lines
from muster.check.registry import chosen
from muster.check.running import Running, weighed
from muster.check.told import tell, understood
from muster.contract.groups import make_groups
from muster.errors import CheckError
from muster.log import say
from muster.model import Job
from muster.settings import Settings


def begin(job: Job, settings: Settings, env: Mapping[str, str], nproc: int) -> Running:
    """Starts this host's checks; none where they are switched off.

    Raises:
        ContractError: MUSTER_CHECKS names a check that there is not.
    """
    level: Level = "full" if settings.check == "full" else "fast"
    checks = chosen(level, settings.severities)
    here = Here(job, settings, env, nproc, level)
    return Running(() if settings.check == "off" else checks, here, settings.severities)


def conclude(running: Running, meeting: Consulting, host: str) -> tuple[Result, ...]:
    """This host's results, once no host has a FAIL.

    Raises:
        CheckError: this host has the first FAIL of all. The others end with it by the channel.
    """
    results = meeting.during(running.results)
    # Hosts whose settings differ must not wait for each other: those that look at nothing say so.
    with calling(running.here, meeting, wanted=CHECK in running.together) as network:
        facts = tell(running.here) | {"network": network} if running.together else None
        packed = [result.pack() for result in results]
        told = {
            "results": packed,
            "facts": facts,
            "level": running.level,
            "gpus": running.here.job.machine.gpus,
            "trains": host in make_groups(running.here.job).world,
        }
        answer = meeting.consult("checks", told, lambda data: _answer(data, running, meeting))
    running.collectives = str(answer["collectives"])
    verdict = table.Verdict(answer["host"], _result(answer["result"]), answer["others"])
    if verdict.host == host and verdict.result:
        raise _failure(verdict, host)
    return results


def _answer(data: Mapping[str, Any], running: Running, meeting: Consulting) -> dict[str, Any]:
    """The leader's: compares, logs the table, and judges. What can't be understood counts as not told."""
    found = {name: _results(told) for name, told in data.items()}
    facts = {
        name: told["facts"]
        for name, told in data.items()
        if isinstance(told, dict) and "facts" in told
    }
    hosts = compare.Hosts(understood(facts), meeting.offsets())
    if hosts.told:
        for host, result in compare.compare(hosts, running.together):
            found[host].append(weighed(result, running.here.settings.severities))
    if any(found.values()):
        say("\n".join([*table.lines(found), *_latencies(hosts, running)]))
    verdict = table.judge(found, running.together)
    return dataclasses.asdict(verdict) | {
        "result": verdict.result.pack() if verdict.result else None,
        "collectives": collectives([told for told in data.values() if isinstance(told, dict)]),
    }


def collectives(told: Sequence[Mapping[str, Any]]) -> str:
    """How much all hosts want of what they do together: at the level fast GPUs alone add something up."""
    levels = {one.get("level") for one in told}
    if levels == {"full"}:
        return "full"
    on_gpus = all(one.get("gpus") for one in told if one.get("trains", True))
    return "fast" if on_gpus and levels <= {"fast", "full"} else ""


def _results(told: Any) -> list[Result]:
    try:
        return [Result.unpack(one) for one in told["results"]]
    except (ValueError, TypeError, KeyError):
        return []


def _latencies(hosts: compare.Hosts, running: Running) -> list[str]:
    full = running.here.level == "full"
    return latency_lines(compare.networks(hosts.told)) if full else []


def _result(packed: Any) -> Result | None:
    return Result.unpack(packed) if packed else None


def _failure(verdict: table.Verdict, host: str) -> CheckError:
    result = verdict.result
    assert result is not None
    more = f" ({verdict.others} more FAILs in the log of the first host)" if verdict.others else ""
    remedy = result.remedy or "docs/checks.md says what this check looks at."
    off = f"MUSTER_CHECKS={result.name}=warn goes on all the same."
    return CheckError(f"check {result.name} on {host}: {result.evidence}{more}", f"{remedy}\n{off}")
