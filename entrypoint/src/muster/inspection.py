"""`muster check`: this host's checks by hand, with a job's files or without. Effects: those of the checks; prints."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from muster import mask
from muster.check import (
    Ranks,
    Running,
    after_plan,
    begin,
    collectives,
    look_at_checkpoints,
    refuse_missing_gpu,
    table,
)
from muster.check.collective.rows import JOB
from muster.check.finding import Result
from muster.code.entry import find_python
from muster.contract import read_contract
from muster.errors import STATUS_OF_KIND, CheckError, CodeError, MusterError
from muster.model import Job, Plan
from muster.plan import handed_on
from muster.plan.topology import make_topology
from muster.report.record import check_record
from muster.settings import Settings, read_settings

T = TypeVar("T")
_LEVELS = ("fast", "full")


def inspect_host(words: Sequence[str], env: Mapping[str, str]) -> int:
    """Prints what every check finds here. The status is 75 where one is a FAIL."""
    options = _parser().parse_args(words)
    try:
        settings = read_settings(env)
        mask.switch(on=settings.mask)
        # By hand `off` would look at nothing, and say that all is well.
        level = options.level or (settings.check if settings.check in _LEVELS else _LEVELS[0])
        settings = replace(settings, check=level)
        job = read_contract(settings, env)
        mask.learn((item.key, item.text) for item in job.hyperparameters)
        found = _look(job, settings, handed_on(env))
    except MusterError as error:
        lines = filter(None, [f"muster: {error.what}", error.remedy])
        print(mask.mask_text("\n".join(lines)), file=sys.stderr)
        return error.status
    status = STATUS_OF_KIND["check"] if table.judge({job.current_host: found}).result else 0
    print(_as_json(job, settings, found, status) if options.json else _as_text(job, found))
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="muster check",
        description="Looks at this host as a job would before its ranks begin (docs/checks.md).",
    )
    parser.add_argument("--level", choices=_LEVELS, help="MUSTER_CHECK, else fast")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    return parser


def _look(job: Job, settings: Settings, env: Mapping[str, str]) -> tuple[Result, ...]:
    """What a job meets here, in its order. Raises MusterError: the job can't be understood."""
    nproc = make_topology(job, settings).nproc
    early = (
        _early("device", lambda: refuse_missing_gpu(job, settings, env)),
        _early("checkpoints", lambda: look_at_checkpoints(job)),
    )
    running = begin(job, settings, env, nproc)
    found = running.results()
    _add_up(job, running, nproc)
    return (*early, *found, *running.later.values())


class _Alone:
    """The meeting of one host."""

    def __init__(self, host: str) -> None:
        self._host = host

    def during(self, work: Callable[[], T]) -> T:
        return work()

    def consult(self, _topic: str, data: Any, judge: Callable[[dict[str, Any]], Any]) -> Any:
        return judge({self._host: data})

    def offsets(self) -> dict[str, float]:
        return {}


def _add_up(job: Job, running: Running, nproc: int) -> None:
    """Lets this host's ranks multiply and add up, as a job of it alone would."""
    level, gpus, settings = running.level, job.machine.gpus, running.here.settings
    running.collectives = collectives([{"level": level, "gpus": gpus}])
    host = job.current_host
    plan = Plan(
        launcher="torchrun",
        host=host,
        hosts=(host,),
        node_rank=0,
        nproc=nproc,
        world_size=nproc,
        master_addr=host,
        master_port=settings.master_port,
        argv=(),
        cwd="/",
        env={},
        rank_env={},
    )
    try:
        python = find_python(settings.python, running.here.env)
        ranks = Ranks(python, (nproc,), 0, gpus=bool(gpus))
        after_plan(plan, ranks, running, _Alone(host), tell=lambda _: None)
    except CheckError:
        return  # The results say so.
    except CodeError as error:
        running.later = {JOB: Result(JOB, "SKIP", error.what, "", 0.0)}


def _early(name: str, look: Callable[[], tuple[str, ...] | None]) -> Result:
    """What ends a job before its checks begin, as one of them."""
    began = time.monotonic()
    try:
        notes = look()
    except CheckError as error:
        return Result(name, "FAIL", error.what, error.remedy, time.monotonic() - began)
    seconds = time.monotonic() - began
    if notes:
        return Result(name, "WARN", "; ".join(notes), "", seconds)
    return Result(name, "PASS", "nothing that ends a job", "", seconds)


def _as_text(job: Job, found: Sequence[Result]) -> str:
    lines = table.lines({job.current_host: found}, whole=True, timed=True)
    if len(job.hosts) > 1:
        lines.append(f"Only {job.current_host} was looked at, of {len(job.hosts)} hosts.")
    return mask.mask_text("\n".join(lines))


def _as_json(job: Job, settings: Settings, found: Sequence[Result], status: int) -> str:
    account = {
        "host": job.current_host,
        "level": settings.check,
        "status": status,
        "checks": [check_record(result) for result in found],
    }
    return json.dumps(account, indent=2, ensure_ascii=False)
