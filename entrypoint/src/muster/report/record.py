"""The JSON account of one host's run. Pure.

No environment in it, and no secret: /opt/ml/output/data ends in S3.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from muster import __version__
from muster.check.finding import Result
from muster.mask import mask_argv, mask_text
from muster.model import Job, Outcome, Plan, RankEnd

SCHEMA = 1


def run_record(
    outcome: Outcome,
    job: Job | None,
    plan: Plan | None,
    seconds: dict[str, float],
    checks: Sequence[Result] = (),
) -> dict[str, Any]:
    """The account as JSON types. `job` and `plan` are None when the run ended before them.

    Args:
        outcome: how it ended.
        job: the job.
        plan: what was run.
        seconds: how long each stage took.
        checks: what this host's checks have found.
    """
    return {
        "schema": SCHEMA,
        "muster": __version__,
        "job": job and job.name,
        "host": job and job.current_host,
        "hosts": job and list(job.hosts),
        "launcher": plan and plan.launcher,
        "world_size": plan and plan.world_size,
        "argv": plan and list(mask_argv(plan.argv)),
        "notes": plan and [mask_text(note) for note in plan.notes],
        "seconds": {stage: round(value, 3) for stage, value in seconds.items()},
        "checks": [check_record(result) for result in checks],
        "status": outcome.status,
        "stop_signal": outcome.stop_signal or None,
        "cause": outcome.cause and _masked(dataclasses.asdict(outcome.cause)),
        "ranks": [_rank(end) for end in outcome.ranks],
        "xids": [dict(xid) for xid in outcome.xids],
    }


def check_record(result: Result) -> dict[str, Any]:
    """One check as JSON types, as the record and `muster check --json` have it."""
    return _masked(dataclasses.asdict(result)) | {"seconds": round(result.seconds, 3)}


def _rank(end: RankEnd) -> dict[str, Any]:
    return {
        "rank": end.rank,
        "local_rank": end.local_rank,
        "status": end.status,
        "signal": -end.code if end.code < 0 else None,
        "ended": round(end.time, 3),
        "signalled": end.signalled or None,
        "error": end.error and mask_text(end.error.headline),
    }


def _masked(values: dict[str, Any]) -> dict[str, Any]:
    return {k: mask_text(v) if isinstance(v, str) else v for k, v in values.items()}
