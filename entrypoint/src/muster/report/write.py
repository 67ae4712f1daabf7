"""Writes the failure file and the record. Effects: the only writer to /opt/ml/output."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from muster.check.finding import Result
from muster.log import say
from muster.mask import mask_text
from muster.model import Cause, Job, Outcome, Paths, Plan, file_part
from muster.report.failure import failure_text, machine_line
from muster.report.hints import with_hint
from muster.report.record import run_record


def begin(paths: Paths) -> None:
    """Makes the folders a script may write to, and moves an older failure file aside.

    A file of an earlier run in the same container would otherwise speak for this one.
    Never raises: a run without a record is better than none.
    """
    with _said(paths.failure):
        if os.path.exists(paths.failure):
            os.replace(paths.failure, f"{paths.failure}.previous")
    for folder in (paths.model, paths.output_data):
        with _said(folder):
            os.makedirs(folder, exist_ok=True)


def finish(
    paths: Paths,
    outcome: Outcome,
    job: Job | None,
    plan: Plan | None,
    seconds: dict[str, float],
    checks: Sequence[Result] = (),
) -> None:
    """Tells how the run ended: the log, the failure file, the record. Never raises."""
    cause = outcome.cause and with_hint(outcome.cause, job)
    if cause:
        say(_last_words(cause))
        with _said(paths.failure):
            _write_failure(paths, cause)
    host = file_part(job.current_host) if job else "unknown"
    path = os.path.join(paths.record, f"run-{host}.json")
    with _said(path):
        os.makedirs(paths.record, exist_ok=True)
        record = run_record(outcome, job, plan, seconds, checks)
        _replace(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def _said(path: str) -> Iterator[None]:
    """Says what could not be written, and goes on: the job's own end matters more."""
    try:
        yield
    except OSError as error:
        say(f"{path} can't be made or written: {error.strerror}")


def _last_words(cause: Cause) -> str:
    lines = [mask_text(cause.headline), machine_line(cause)]
    # A traceback is in the log already; a failure of the harness's own is nowhere else.
    if cause.kind not in ("user", "signal") and cause.detail:
        lines.append(mask_text(cause.detail))
    if cause.remedy:
        lines.append(cause.remedy)
    return "\n".join(lines)


def _write_failure(paths: Paths, cause: Cause) -> None:
    os.makedirs(paths.output, exist_ok=True)
    written = ""
    if os.path.exists(paths.failure):
        with open(paths.failure, encoding="utf-8", errors="replace") as file:
            written = file.read(4096)
    masked = dataclasses.replace(
        cause, headline=mask_text(cause.headline), detail=mask_text(cause.detail)
    )
    _replace(paths.failure, failure_text(masked, written))


def _replace(path: str, text: str) -> None:
    """Writes a whole file or none: the platform may read it at any moment."""
    temporary = f"{path}.new"
    with open(temporary, "wb") as file:
        file.write(text.encode("utf-8", "replace"))
    os.replace(temporary, path)
