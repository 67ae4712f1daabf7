"""What a collective should reach, and from where one knows. Effects: reads files.

`baselines.toml` beside this file has what is public, each number with its source and date. A good run of the
user's own, as the JSON that -J writes, takes its place.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from muster_perf.errors import PerfError

_TABLE = os.path.join(os.path.dirname(__file__), "baselines.toml")
_RECORD = "Record one: all_reduce_perf -b 1G -e 1G -J FILE"
_RECORDED = 0.85
"""Of a run of the user's own: less is worth a look."""


@dataclass(frozen=True)
class Expectation:
    """A bus bandwidth in GB/s, and its origin. Where nothing trustworthy is known the numbers are None."""

    expected: float | None
    warn: float | None
    """Below it: worth a look."""
    floor: float | None
    """Below it: something is wrong, as when NCCL has fallen back to sockets."""
    kind: str
    """measured, derived, recorded (the user's own run), or unknown."""
    source: str
    date: str
    reason: str = ""
    """Why nothing is known; or what else is to be known of the number."""


def expect(
    instance_type: str,
    hosts: int,
    collective: str,
    size: int,
    recorded: str | None = None,
    *,
    ranks: int = 0,
) -> Expectation:
    """The bus bandwidth that `size` bytes of a collective should reach.

    Args:
        instance_type: as SageMaker calls it, ml.p5.48xlarge.
        hosts: how many of them take part, with all their GPUs.
        collective: all_reduce, all_gather and so on.
        size: bytes, as in the column `size`.
        recorded: the JSON file of a good run. It is asked instead of the table.
        ranks: how many a recorded run must have had; 0 for any number.

    Raises:
        PerfError: the file can't be read, or is no such file; or no module reads TOML (Python 3.10 without tomli).
    """
    if recorded:
        return _from_run(recorded, (collective, hosts, instance_type), size, ranks)
    return _from_table(instance_type, hosts, collective, size)


def _from_table(instance_type: str, hosts: int, collective: str, size: int) -> Expectation:
    table = _read()
    fitting = [row for row in table["baseline"] if _fits(row, instance_type, hosts, collective)]
    if not fitting:
        reason = f"no number is known for {collective} on {hosts} x {instance_type}"
        return _unknown(f"{reason}: record a good run (-J)")
    row = fitting[0]
    if "unknown" in row:
        return _unknown(row["unknown"], row["source"], row["date"])
    scale = next((each for each in table["size"] if size >= each["min_bytes"]), None)
    if scale is None:
        least = min(each["min_bytes"] for each in table["size"])
        reason = f"below {least} bytes no number is known, only hosts can be compared"
        return _unknown(reason, row["source"], row["date"])
    expected = row["busbw"] * scale["factor"]
    parts = table["thresholds"]
    return Expectation(
        expected=expected,
        warn=expected * parts["warn"],
        floor=expected * parts["floor"],
        kind=row["kind"],
        source=row["source"],
        date=row["date"],
        reason=row.get("note", ""),
    )


def _fits(row: dict[str, Any], instance_type: str, hosts: int, collective: str) -> bool:
    return (
        instance_type in row["instances"]
        and row["hosts_from"] <= hosts <= row.get("hosts_to", hosts)
        and row["collective"] == collective
    )


def _from_run(path: str, asked: tuple[str, int, str], size: int, ranks: int) -> Expectation:
    try:
        with open(path, encoding="utf-8") as file:
            run = json.load(file)
        own, date = run["muster"], run["start_time"]
        rates = {
            row["size"]: max(half["bus_bw"] for half in (row["out_of_place"], row["in_place"]))
            for row in run["results"]
        }
        found = (own["collective"], own["hosts"], own["instance_type"])
        world = own.get("world", 0)
    except OSError as error:
        raise PerfError(f"{path} can't be read: {error.strerror}", _RECORD) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"{path} is no JSON of a run: {type(error).__name__}: {error}"
        raise PerfError(what, _RECORD) from error
    if asked != found or size not in rates or (ranks and world != ranks):
        told = _described(found, world, ", ".join(map(str, rates)))
        reason = f"{path} recorded {told}, and not {_described(asked, ranks, str(size))}"
        return _unknown(reason, path, date)
    best = rates[size]
    return Expectation(best, best * _RECORDED, best * 0.5, "recorded", path, date)


def _described(run: tuple[str, int, str], ranks: int, sizes: str) -> str:
    collective, hosts, instance_type = run
    by = f" by {ranks} ranks" if ranks else ""
    return f"{collective} on {hosts} x {instance_type or 'unknown instances'}{by} of {sizes} bytes"


def _unknown(reason: str, source: str = "", date: str = "") -> Expectation:
    return Expectation(None, None, None, "unknown", source, date, reason)


def _read() -> dict[str, Any]:
    try:
        import tomllib  # noqa: PLC0415  (since Python 3.11)
    except ModuleNotFoundError:
        try:
            import tomli as tomllib  # noqa: PLC0415
        except ModuleNotFoundError as error:
            what = "baselines.toml can't be read: Python 3.10 has no module for TOML"
            raise PerfError(what, "pip install tomli") from error
    with open(_TABLE, "rb") as file:
        table: dict[str, Any] = tomllib.load(file)
        return table
