"""The checks as a stage: begun before code is fetched, concluded by all hosts together before the ranks begin.

Effects: those of the checks; the leader logs a table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from muster.check import table
from muster.check.finding import Here, Result
from muster.check.registry import chosen
from muster.check.running import Running
from muster.errors import CheckError
from muster.log import say
from muster.model import Job
from muster.settings import Settings


class Consulting(Protocol):
    """What asks all hosts: Meeting.consult."""

    def consult(self, topic: str, data: Any, judge: Any) -> Any:
        """The leader's answer to what all hosts tell."""


def begin(job: Job, settings: Settings, env: Mapping[str, str], nproc: int) -> Running | None:
    """Starts this host's checks; None where they are switched off.

    Raises:
        ContractError: MUSTER_CHECKS names a check that there is not.
    """
    checks = chosen("full" if settings.check == "full" else "fast", settings.severities)
    if settings.check == "off":
        return None
    here = Here(job, settings, env, nproc, "full" if settings.check == "full" else "fast")
    return Running(checks, here, settings.severities)


def conclude(running: Running | None, meeting: Consulting, host: str) -> tuple[Result, ...]:
    """This host's results, once no host has a FAIL.

    Raises:
        CheckError: this host has the first FAIL of all. The others end with it by the channel.
    """
    # Hosts whose settings differ must not wait for each other: those that look at nothing say so.
    results = running.results() if running else ()
    told = [result.pack() for result in results]
    answer = meeting.consult("checks", told, _answer)
    verdict = table.Verdict(**{**answer, "result": _result(answer["result"])})
    if verdict.host == host and verdict.result:
        raise _failure(verdict, host)
    return results


def _answer(data: Mapping[str, Any]) -> dict[str, Any]:
    """The leader's: logs the table, and judges. What can't be understood counts as not told."""
    found: dict[str, Sequence[Result]] = {}
    for name, told in data.items():
        try:
            found[name] = tuple(Result.unpack(one) for one in told)
        except (ValueError, TypeError):
            found[name] = ()
    if any(found.values()):
        say("\n".join(table.lines(found)))
    verdict = table.judge(found)
    return dataclasses.asdict(verdict) | {
        "result": verdict.result.pack() if verdict.result else None
    }


def _result(packed: Any) -> Result | None:
    return Result.unpack(packed) if packed else None


def _failure(verdict: table.Verdict, host: str) -> CheckError:
    result = verdict.result
    assert result is not None
    more = f" ({verdict.others} more FAILs in the log of the first host)" if verdict.others else ""
    remedy = result.remedy or "docs/checks.md says what this check looks at."
    off = f"MUSTER_CHECKS={result.name}=warn goes on all the same."
    return CheckError(f"check {result.name} on {host}: {result.evidence}{more}", f"{remedy}\n{off}")
