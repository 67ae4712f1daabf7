"""The results as JSON, in nccl-tests' schema (version 3), without the environment. Effects: one file.

NVIDIA's writes every variable of rank 0 as well, keys and tokens among them: results are files that people share.
What is ours lies below `muster`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from muster_perf.flags import Flags
from muster_perf.table import Half, Row

VERSION = 3
_TRIES = 10_000


def claim(path: str) -> str | None:
    """Makes a new file: `path`, or with .0, .1 and so on behind it where that exists. None where none can be."""
    for number in range(-1, _TRIES):
        name = path if number < 0 else f"{path}.{number}"
        try:
            with open(name, "x", encoding="utf-8"):
                return name
        except FileExistsError:
            continue
        except OSError:
            return None
    return None


def write(path: str, document: dict[str, Any]) -> None:
    """Writes the document, whole or not at all.

    Raises:
        OSError: it can't be written.
    """
    text = json.dumps(document, allow_nan=False) + "\n"
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)


def config(flags: Flags, devices: Sequence[str]) -> dict[str, Any]:
    """What was asked for, and of which devices (their lines)."""
    steps = (
        {"step_factor": flags.stepfactor}
        if flags.stepfactor > 1
        else {"step_bytes": flags.stepbytes}
    )
    return {
        "nthreads": 1,
        "ngpus": 1,
        "minimum_bytes": flags.minbytes,
        "maximum_bytes": flags.maxbytes,
        **steps,
        "warmup_iters": flags.warmup_iters,
        "iterations": flags.iters,
        "aggregated_iterations": flags.agg_iters,
        "validation": flags.check,
        "graph": 0,
        "blocking_collectives": _text(flags.blocking != 0),
        "per_iter_timing": "false",
        "parallel_init": "false",
        "devices": [device(line) for line in devices],
    }


def device(line: str) -> dict[str, Any]:
    """A rank's line of the list of devices, taken apart."""
    head, _, rest = line.partition(" on ")
    words = head.split()
    host, _, rest = rest.strip().partition(" device ")
    number, _, rest = rest.strip().partition(" [")
    address, _, name = rest.partition("] ")
    return {
        "rank": int(words[2]),
        "group": int(words[4]),
        "pid": int(words[6]),
        "hostname": host,
        "device": int(number),
        "device_hex": address,
        "device_info": name,
    }


def result(row: Row, iterations: int) -> dict[str, Any]:
    """One row. NVIDIA's root is a text as wide as its column."""
    return {
        "size": row.size,
        "count": row.count,
        "type": row.type,
        "redop": row.redop,
        "root": f"{row.root:6d}",
        "out_of_place": _half(row.out_of_place),
        "in_place": _half(row.in_place),
        "actual_iterations": iterations,
        "experiment_name": "",
    }


def summary(wrong: int, average: float, verdict: str) -> dict[str, Any]:
    """What the rows come to."""
    okay = _text(verdict == "OK") if verdict else "unchecked"
    return {
        "out_of_bounds": {"count": wrong, "okay": _text(wrong == 0)},
        "average_bus_bandwidth": {"bandwidth": round(average, 6), "okay": okay},
    }


def _half(half: Half) -> dict[str, Any]:
    return {
        "time": round(half.microseconds, 6),
        "alg_bw": round(half.algbw, 6),
        "bus_bw": round(half.busbw, 6),
        "nwrong": None if half.wrong is None else float(half.wrong),
    }


def _text(value: bool) -> str:
    """NVIDIA's booleans are texts."""
    return "true" if value else "false"
