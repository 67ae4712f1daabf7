"""The table at the end of `muster local`. Effects: prints."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from muster.local.backend import HostEnd


def print_summary(ends: Sequence[HostEnd], folder: str) -> None:
    """One row a host: its ranks, its status, its time, its reason."""
    table = Table(title="muster local", title_justify="left")
    for column in ("host", "ranks", "status", "seconds", "reason"):
        table.add_column(column, justify="right" if column in ("status", "seconds") else "left")
    for end in ends:
        record = _record(end)
        ranks = ", ".join(f"{r['rank']}:{r['status']}" for r in record.get("ranks", []))
        reason = "" if end.status == 0 else _reason(end, record)
        style = "red" if end.status else None
        # A Text, because rich would take brackets in an error's message for its own markup.
        cells = (end.host.name, ranks, str(end.status), f"{end.seconds:.1f}", reason)
        table.add_row(*(Text(cell) for cell in cells), style=style)
    console = Console()
    console.print(table)
    if asked := next((end.asked for end in ends if end.asked), 0):
        console.print(Text(f"stopped from outside by {signal.Signals(asked).name}"))
    models = sorted(os.listdir(os.path.join(folder, "model")))
    console.print(Text(f"model: {', '.join(models) or 'nothing was written'}"))
    console.print(Text(f"all files: {folder}"), soft_wrap=True)


def _record(end: HostEnd) -> dict[str, Any]:
    path = os.path.join(end.host.paths.record, f"run-{end.host.name}.json")
    try:
        with open(path, encoding="utf-8") as file:
            record: dict[str, Any] = json.load(file)
            return record
    except (OSError, ValueError):
        return {}


def _reason(end: HostEnd, record: dict[str, Any]) -> str:
    if end.stopped:
        return "ended because another host had failed"
    cause = record.get("cause") or {}
    if end.asked and cause.get("kind") in (None, "signal"):
        return _stopped_from_outside(end, cause, record)
    if cause.get("host") not in (None, "-", end.host.name):
        return f"ended because of {cause['host']}"
    return _told(cause, record) or "no record was written"


def _stopped_from_outside(end: HostEnd, cause: dict[str, Any], record: dict[str, Any]) -> str:
    """No host is to blame; what this one's ranks came to is told all the same."""
    own = _told(cause, record) if cause.get("host") == end.host.name else ""
    return "stopped from outside" + (f"; {own}" if own else "")


def _told(cause: dict[str, Any], record: dict[str, Any]) -> str:
    rank = cause.get("rank")
    # The script of the launcher cluster is no rank: it starts them.
    where = "" if rank is None or record.get("launcher") == "cluster" else f"rank {rank}: "
    return f"{where}{cause['headline']}" if cause.get("headline") else ""
