"""All ranks' first all-reduce, before the script's: is what arrives right, and does it arrive? Effects: processes, files.

Ranks of the benchmark (docs/benchmark.md) stand where the job's will stand, with the same variables and the same meeting
point, each a child of its host's harness. A rank that doesn't end costs its time and no more.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.check.exchange import Consulting
from muster.check.finding import Check, Finding, Result, by_all, passed, skipped, unknown
from muster.check.process import end_group
from muster.check.running import weighed
from muster.check.table import lines
from muster.errors import CheckError
from muster.log import say
from muster.mask import mask_text
from muster.model import Plan

NAME = "collective.job"
_SIZE = {True: "64M", False: "4M"}
"""By whether there are GPUs: 64 MiB take milliseconds between them, and seconds over gloo on few cores."""
_LIMIT_S = 60.0
_LOOK_S = 0.1
_TAIL = 300
_MODULE = "muster_perf"
_ABSENT = "No module named"
_REMEDY = "`muster train all_reduce_perf -b 8 -e 64M -f 2` repeats it by hand; NCCL_DEBUG=INFO says what NCCL does."
CHECK = Check(
    NAME,
    "full",
    "An all-reduce over all ranks of the job, started where they will be: 64 MiB on GPUs, 4 MiB without",
    by_all,
    limits=f"FAIL for a wrong value, a rank that fails, or no end within {_LIMIT_S:.0f} s",
    source="health checks of NVIDIA, Meta and Microsoft all end with one",
    timeout_s=_LIMIT_S,
    remedy="`muster train all_reduce_perf` by hand, with NCCL_DEBUG=INFO",
)


@dataclass(frozen=True)
class Ranks:
    """This host's part of the world."""

    python: str
    first: int
    """The lowest rank here."""
    count: int
    world: int
    gpus: bool


def after_plan(
    plan: Plan,
    ranks: Ranks,
    env: Mapping[str, str],
    meeting: Consulting,
    severities: Mapping[str, str],
) -> Result:
    """What the whole job's all-reduce has shown.

    Args:
        plan: this host's; nothing of it is changed.
        ranks: this host's part.
        env: the job's programs' environment.
        meeting: of all hosts, whose settings may differ: each consults twice, whatever it wants.
        severities: by name, what a user makes of a WARN or FAIL, and what is off.

    Raises:
        CheckError: this host is the first that the FAIL is about.
    """
    why = _why_not(plan, severities)
    refusals = meeting.consult("collective", why, lambda told: [w for w in told.values() if w])
    began = time.monotonic()
    if refusals or _is_outside(plan):
        mine = skipped(refusals[0] if refusals else "this host's group does not train")
    else:
        mine = meeting.during(lambda: _measure(plan, ranks, env))
    told = Result(NAME, mine.status, mine.evidence, mine.remedy, time.monotonic() - began)
    answer = meeting.consult(f"{NAME} done", weighed(told, severities).pack(), _answer)
    if answer == plan.host:
        raise CheckError(
            f"check {NAME} on {plan.host}: {mine.evidence}",
            f"{mine.remedy}\nMUSTER_CHECKS={NAME}=warn goes on all the same.",
        )
    return told


def _why_not(plan: Plan, severities: Mapping[str, str]) -> str:
    if severities.get(NAME) == "off":
        return "it is switched off"
    if plan.launcher == "plain" and not _is_outside(plan):
        return "the launcher is plain: hosts train by themselves"
    return ""


def _is_outside(plan: Plan) -> bool:
    """Whether this host is of an instance group that the job does not name for training."""
    return plan.rank_env.get("MUSTER_IN_WORLD") == "0"


def _answer(data: Mapping[str, Any]) -> str:
    """The leader's: logs what all have seen, and names the first host that has failed by itself."""
    found: dict[str, Sequence[Result]] = {}
    for host, told in data.items():
        try:
            found[host] = (Result.unpack(told),)
        except (ValueError, TypeError):
            continue
    say("\n".join(lines(found, whole=True)[1:]))
    failed = [(host, one) for host, (one,) in found.items() if one.status == "FAIL"]
    # A rank that has waited in vain says less than one that has failed, and the first one knows why.
    failed.sort(key=lambda item: (item[1].evidence.endswith(_LATE), item[1].seconds))
    return failed[0][0] if failed else ""


_LATE = f"has not ended within {_LIMIT_S:.0f} s"


def _measure(plan: Plan, ranks: Ranks, env: Mapping[str, str]) -> Finding:
    """Starts this host's ranks, and waits for them."""
    with tempfile.TemporaryDirectory(prefix="muster-check-") as folder:
        children: list[subprocess.Popen[bytes]] = []
        try:
            children.extend(_start(plan, ranks, env, folder, local) for local in range(ranks.count))
            late = _wait(children)
        except OSError as error:
            return unknown(f"the benchmark can't be started: {error.strerror or error}")
        finally:
            for child in children:
                end_group(child)
        ends = [child.returncode for child in children]
        return _judge(ranks, folder, ends, late)


def _start(
    plan: Plan, ranks: Ranks, env: Mapping[str, str], folder: str, local: int
) -> subprocess.Popen[bytes]:
    size = _SIZE[ranks.gpus]
    words = [ranks.python, "-m", _MODULE, "all_reduce", "-b", size, "-e", size, "-n", "5"]
    if ranks.first + local == 0:
        words += ["-J", os.path.join(folder, "result.json")]
    place = {
        "RANK": ranks.first + local,
        "LOCAL_RANK": local,
        "WORLD_SIZE": ranks.world,
        "LOCAL_WORLD_SIZE": ranks.count,
        "MASTER_PORT": plan.master_port,
        "MUSTER_EXPECT_WORLD": ranks.world,
    }
    variables = {name: str(value) for name, value in place.items()}
    with open(os.path.join(folder, f"rank-{local}"), "wb") as output:
        return subprocess.Popen(
            words,
            env={**env, **plan.env, **variables, "MASTER_ADDR": plan.master_addr},
            cwd=folder,  # Not the code's: a muster_perf.py or a types.py there is the script's own.
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _wait(children: Sequence[subprocess.Popen[bytes]]) -> bool:
    """Whether some had not ended in time. One that fails ends the wait: the others would wait for it."""
    deadline = time.monotonic() + _LIMIT_S
    while None in (ends := [child.poll() for child in children]):
        if any(ends):
            return False
        if time.monotonic() > deadline:
            return True
        time.sleep(_LOOK_S)
    return False


def _judge(ranks: Ranks, folder: str, ends: Sequence[int | None], late: bool) -> Finding:
    if late:
        return Finding("FAIL", f"an all-reduce over {ranks.world} ranks {_LATE}", _REMEDY)
    for local, status in enumerate(ends):
        if status and status > 0:
            said = _last_line(os.path.join(folder, f"rank-{local}"))
            if _ABSENT in said and _MODULE in said:
                return skipped(f"the script's Python has no {_MODULE}")
            return Finding(
                "FAIL", f"rank {ranks.first + local}: {said or f'status {status}'}", _REMEDY
            )
    try:
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
            result = json.load(file)
        (row,) = result["results"]
        took, busbw = row["in_place"]["time"], row["in_place"]["bus_bw"]
        evidence = f"{_SIZE[ranks.gpus]} over {ranks.world} ranks by {result['muster']['backend']}: {took / 1e3:.1f} ms, busbw {busbw:.2f} GB/s"
        return passed(evidence)
    except (OSError, ValueError, KeyError, TypeError):
        return passed(f"{ranks.count} ranks of {ranks.world} have had what they should")


def _last_line(path: str) -> str:
    """The last line of a rank's output that says something."""
    with open(path, encoding="utf-8", errors="replace") as file:
        said = [line.strip() for line in file.read()[-8192:].splitlines() if line.strip(" #")]
    return mask_text(said[-1])[:_TAIL] if said else ""
