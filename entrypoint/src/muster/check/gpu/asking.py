"""The one look at the GPUs that all their checks share. Effects: starts the probe, and kills it when its time is over.

A wedged driver lets no call return, and may hold the process that made it for ever. So the calls are a child's, and what
it has told until then counts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from muster.check.evidence import once
from muster.check.finding import Finding, Here, skipped, unknown
from muster.check.gpu.facts import NOT_ASKED, Fact, Gpu, Missing, fact, unpack
from muster.check.gpu.limits import TIMEOUT_S
from muster.check.gpu.presence import absence
from muster.check.gpu.visible import Visible, visible

PROBE = (sys.executable, "-I", "-m", "muster.check.gpu.probe")
_LOOK_S = 0.01
_NO_MODULE = 3


@dataclass(frozen=True)
class Look:
    """What is known of this host's GPUs."""

    gpus: tuple[Gpu, ...] = ()
    """All that NVML has told of."""
    visible: Visible = Visible()  # noqa: RUF009  (frozen)
    """Those that the job's programs use."""
    driver: Fact[str] = NOT_ASKED
    cuda: Fact[int] = NOT_ASKED
    """The newest CUDA that the driver runs: 13000 for 13.0."""
    count: Fact[int] = NOT_ASKED
    """How many GPUs NVML counts."""
    trouble: Finding | None = None
    """Why there is nothing to be looked at, or not all of it."""


def look_at(here: Here) -> Look:
    """The look of this host, taken by the first check that asks for it."""
    return once(here, "gpu", lambda: ask(here))


def ask(here: Here, probe: Sequence[str] = PROBE, timeout_s: float = TIMEOUT_S) -> Look:
    """Takes a look. Hosts without a GPU start no process for it.

    Args:
        here: the host.
        probe: the argv that prints the facts.
        timeout_s: how long it may take.
    """
    missing = absence(here)
    if missing:
        return Look(trouble=missing)
    code, lines = _run(here, probe, timeout_s)
    return read(here, code, lines, timeout_s)


def _run(here: Here, probe: Sequence[str], timeout_s: float) -> tuple[int | None, list[Any]]:
    """The probe's exit code, None when it had to be killed, and what it has printed."""
    import subprocess  # noqa: PLC0415  (10 ms, where there is a GPU)

    from muster.check.process import end_group  # noqa: PLC0415  (the same)

    # A file, not a pipe: what was told stays, whatever becomes of the process.
    output = os.memfd_create("muster-probe")
    try:
        process = subprocess.Popen(
            probe,
            env=dict(here.env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + timeout_s
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        code = process.poll()
        if code is None:
            end_group(process)
        return code, _objects(os.pread(output, os.fstat(output).st_size, 0))
    finally:
        os.close(output)


def _objects(printed: bytes) -> list[Any]:
    found = []
    for line in printed.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # the line that was being written when it was killed
    return found


def read(here: Here, code: int | None, lines: Sequence[Any], timeout_s: float) -> Look:
    """What the probe's lines mean. Pure.

    Args:
        here: for what is visible.
        code: its exit code; None when it was killed.
        lines: what it has printed.
        timeout_s: what it had, for the message.
    """
    told = {key: value for line in lines if isinstance(line, dict) for key, value in line.items()}
    host = told.get("host") or {}
    gpus = tuple(
        unpack(line["gpu"], line["facts"])
        for line in lines
        if isinstance(line, dict) and "facts" in line
    )
    known = {
        name: fact(host.get(name, {"error": "NotAsked"})) for name in ("driver", "cuda", "count")
    }
    trouble = _trouble(code, told, timeout_s)
    return Look(gpus, visible(gpus, here.env), **known, trouble=trouble)


def _trouble(code: int | None, told: dict[str, Any], timeout_s: float) -> Finding | None:
    if code == _NO_MODULE:
        return skipped("this Python has no nvidia-ml-py; the images' harness has it")
    if "done" not in told:
        index, name = told.get("asking") or (None, "start")
        where = name if index is None else f"GPU {index}, {name}"
        if code is None:
            return unknown(f"the driver has not answered within {timeout_s:g} s: {where}")
        return unknown(f"the look at the GPUs ended with status {code}: {where}")
    ready = fact((told.get("host") or {}).get("init"))
    if isinstance(ready, Missing):
        if ready.error == "LibraryNotFound":
            return skipped(
                "there is no libnvidia-ml.so.1: the container got the GPUs without `utility`"
            )
        return unknown(f"NVML can't begin: {ready.error}")
    count = fact((told.get("host") or {}).get("count"))
    return unknown(f"NVML can't count GPUs: {count.error}") if isinstance(count, Missing) else None
