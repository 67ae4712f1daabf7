"""scripts/reference: docs/reference.md, docs/gpus.md and docs/checks.md, from the harness's own tables. Needs muster installed: make reference."""

from __future__ import annotations

from pathlib import Path

from muster.errors import STATUS_OF_KIND
from muster.plan.reserved import TABLE as RESERVED
from muster.settings import TABLE as SETTINGS
from tooling import checks, gpus
from tooling.tables import table

PATH = Path(__file__).resolve().parents[2] / "docs" / "reference.md"
HEAD = """# Reference

Made from the tables in the code by `make reference`.

## Variables

Set in the image, with `docker run --env`, or as an Estimator's `environment`. A variable that is set
but empty counts as not set.

"""
FOUND = """
## What a script finds

Beside SageMaker's `SM_*` variables and torch.distributed's own:

| variable | where | what it is |
| --- | --- | --- |
| `MUSTER_IN_WORLD` | always | 1; 0 on a host of an instance group that the distribution does not name |
| `MUSTER_CHANNEL_MODES` | always | each channel's input mode as JSON: `{"train": "Pipe"}` |
| `MUSTER_RANKS` | torchrun, mpirun, horovodrun | the launcher that has started the ranks |
| `MUSTER_MESH` | torchrun, mpirun, horovodrun, with `mp_parameters` | the device mesh of the job's ranks as JSON: `{"shape": [2, 2], "names": ["dp_shard", "tp"]}` (docs/migration.md) |
| `NODE_RANK`, `NNODES`, `NPROC_PER_NODE`, `MASTER_ADDR`, `MASTER_PORT` | cluster | what a launcher of the script's own asks for |
| `MUSTER_HOSTFILE` | cluster | the path of a file with `HOST slots=N`, a line a host |
| `MUSTER_BACKEND` | with `MUSTER_SMDDP_FALLBACK` | `nccl`, where SageMaker's data parallel library can't work |
"""
STATUSES = """
## Exit statuses

A script's own status passes through, and so does 128 + n for signal n. These are the harness's own;
`kind` in the second line of the failure file tells them from a script's.

"""
KEYS = """
## Reserved hyperparameters

What SageMaker's SDKs send for the container. None reaches the script. An unknown key with `sagemaker_`
is ignored with a line in the log, or refused where it looks like a misspelt one.

"""


def text() -> str:
    """Return the page. Pure."""
    settings = (
        (f"`{row.variable}`", row.accepts, _shown(row.default), row.meaning, row.since)
        for row in SETTINGS.values()
    )
    statuses = ((str(status), kind) for kind, status in STATUS_OF_KIND.items())
    keys = ((f"`{key}`", row.treatment, row.why) for key, row in RESERVED.items())
    return (
        HEAD
        + table(("variable", "takes", "default", "what it is for", "since"), settings)
        + FOUND
        + STATUSES
        + table(("status", "kind"), statuses)
        + KEYS
        + table(("hyperparameter", "here", "as what, or why"), keys)
    )


def _shown(default: object) -> str:
    if default is None or default == {}:
        return ""
    return f"`{int(default) if isinstance(default, bool) else default}`"


def main() -> int:
    """Write the pages. Effects: docs/reference.md, docs/gpus.md, docs/checks.md."""
    gpus.write()
    checks.write()
    PATH.write_text(text(), encoding="utf-8")
    return 0
