"""docs/checks.md: every check, from the harness's own registry. Needs muster installed: make reference."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from muster.check.finding import Check
from muster.check.gpu import xid
from muster.check.registry import CHECKS, LATER
from tooling.tables import table

PATH = Path(__file__).resolve().parents[2] / "docs" / "checks.md"
HEAD = """# What is looked at before the ranks begin

Made from the registry of checks by `make reference`.

Before a script starts, every host looks at what it will need, all checks at once, each with a time of its own, while code is
fetched and requirements are installed. Before the first rank begins the hosts tell the first one what they have found. It logs
one table for all of them; when one host has a FAIL, all end with it.

## What a check says

| status | means | and then |
| --- | --- | --- |
| PASS | it was looked at, and is well | |
| WARN | it may go wrong, or go slowly | a line in the log, with what to do |
| FAIL | the job can't work so, or would be paid for in vain | all hosts end: kind=check, status 75, with host, evidence and what to do |
| SKIP | there is nothing of the kind here | |
| UNKNOWN | it could not be looked at: no permission, no answer in time | a line in the log; it ends nothing, and it is never a PASS |

The table in the first host's log has a line for each thing that is a FAIL, WARN or UNKNOWN, with the hosts that have it, and
counts the rest. What ranks add up has lines of its own, below. Each host's own results are in its `run-HOST.json` under `checks`; what
only a comparison of hosts shows (`net.*`, `*.same`) is in that log alone.

## How to choose

- `MUSTER_CHECK=fast` is the default. It adds less than a second to a job on CPU hosts, as it runs beside other work.
- `MUSTER_CHECK=full` also runs those with the level full, which take longer, among them ranks that add something up: for the first job on new hosts, or after a bad one.
- `MUSTER_CHECK=off` looks at nothing. What is refused before the checks, a GPU image without a GPU or checkpoints that can't be
  written, is refused all the same.
- `MUSTER_CHECKS=host.shm=off,host.names=warn,host.limits=fail` changes single ones: `off` leaves one out, `warn` and `fail` say what
  its WARN or FAIL does. A PASS, SKIP or UNKNOWN stays what it is.

## Ranks that add something up

The last checks start ranks of the benchmark ([benchmark.md](benchmark.md)) where the job's will be, each world in processes of its own, which
have 120 s to meet and 60 s from then ([ADR 24](adr/0024-ranks-before-the-ranks.md)). Where all ranks have GPUs they belong to the level fast;
elsewhere to full.

1. Every rank multiplies the same matrices for some seconds, and all products of hosts of a kind are compared (full only).
2. Each host's ranks add up by themselves, which needs no network.
3. All ranks of the job add up. The values have to be right; the bandwidth is held against a good run of your own, else against a
   public number where all GPUs of hosts that are alike take part, and the verdict says against which.
4. Where Horovod's launchers are used, its own allreduce does the same.
5. When the third is a FAIL, and at full, pairs of hosts are tried: neighbours first, then each host that no pair has cleared with one that
   was. So one bad host among three or more is named. Of two hosts nobody can say which, and the verdict doesn't.

A good run of your own is worth more than any table:

    muster train all_reduce_perf -b 64M -e 1G -f 2 -J /opt/ml/checkpoints/muster-baseline.json

Remove an older file first: it is kept, and the new one gets another name. In the checkpoints it is found by the next job that resumes from them; `MUSTER_BASELINE` names it anywhere else. Hosts, ranks and sizes have to be
the same: 64 MiB is what the level fast measures on GPUs, 1 GiB what full does; without GPUs it is 4 MiB (`-b 64K -e 4M -f 8`).

The hosts of `muster local` have your shell's variables: `MUSTER_CHECK=full muster local …`. There all hosts share one machine, and that one
is slower than another says little.

## While the ranks run

On hosts with GPUs the driver is listened to by a process of its own, from before the launcher begins until the ranks are over. It
tells of errors (XID) on the GPUs that the job uses. Each is a line in the log, and is in `run-HOST.json` under `xids`.

| class | XID | and then |
| --- | --- | --- |
| hardware | {hardware}; GPU_IS_LOST | all hosts end: kind=check, status 75, with the GPU's UUID; a rank that fails with it is its echo |
| suspect | {suspect} | the run goes on; a rank's failure says that it may be the machine |
| application | {application} | the run goes on; a rank's failure says that it is the script's kernel, not the machine |
| note | all others | the run goes on |

`MUSTER_CHECKS=gpu.xid=warn` lets the run go on in any case, `gpu.xid=fail` ends it for a suspect too, and `gpu.xid=off`, as
`MUSTER_CHECK=off`, listens to nothing.

By hand, also without any job's files, on the host that it is about:

    docker run --rm IMAGE check
    docker run --rm IMAGE check --level full --json

It prints every check with its seconds, looks at this host alone, as many ranks as a job would have here add something up where
the level asks for it, and it ends with 75 where one is a FAIL, with 70 for a wrong setting, else with 0. By hand `MUSTER_CHECK=off` is
fast: nothing would be looked at. Its first two
lines, `device` and `checkpoints`, are what would end a job before its checks.

What a file system must give so that an epoch can be as short as you want:

    muster storage-plan --dataset 100GB --epoch 30s --hosts 4

"""
GROUPS = {
    "host": "The host",
    "gpu": "GPUs",
    "network": "Network",
    "net": "Network",
    "efa": "EFA",
    "software": "Software",
    "storage": "Storage",
    "collective": "Collectives",
}
"""Titles by the part of a name before the dot; another part is its own title."""
TITLES = ("check", "level", "looks at", "limits", "source of the limits", "what to do")


def text(checks: Iterable[Check] = (*CHECKS, *LATER)) -> str:
    """Return the page. Pure."""
    groups: dict[str, list[Check]] = {}
    for check in checks:
        part = check.name.partition(".")[0]
        groups.setdefault(GROUPS.get(part, part), []).append(check)
    tables = (f"## {title}\n\n{table(TITLES, map(_row, rows))}" for title, rows in groups.items())
    classes = {"hardware": xid.HARDWARE, "suspect": xid.SUSPECT, "application": xid.APPLICATION}
    numbers = {name: ", ".join(map(str, sorted(found))) for name, found in classes.items()}
    return HEAD.format(**numbers) + "\n".join(tables)


def _row(check: Check) -> tuple[str, ...]:
    cells = (check.what, check.limits, check.source, check.remedy)
    # A bar would end the cell.
    return (f"`{check.name}`", check.level, *(cell.replace("|", "\\|") or "—" for cell in cells))


def write() -> None:
    """Write the page. Effects: docs/checks.md."""
    PATH.write_text(text(), encoding="utf-8")
