"""Runs in the container, on its Python: turns what ModelTrainer has sent into muster's own words, and into muster.

Beside it lie distributed.json and sourcecode.json, as the SDK writes them (contract.md 5.1). It is
sent with the job, so the image need not know it; standard library only.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DRIVERS = Path(__file__).resolve().parents[1]


def read(name: str) -> dict[str, Any]:
    """One of the SDK's files. Raises OSError, ValueError."""
    value: dict[str, Any] = json.loads((DRIVERS / name).read_text(encoding="utf-8"))
    return value


def variables(distributed: Mapping[str, Any]) -> dict[str, str]:
    """Muster's variables for the fields of muster.sdk.Muster. Pure."""
    found = {
        "MUSTER_LAUNCHER": distributed.get("launcher"),
        "MUSTER_NPROC": distributed.get("process_count_per_node"),
        "MUSTER_MPI_OPTIONS": " ".join(distributed.get("mpi_additional_options") or ()),
    }
    return {name: str(value) for name, value in found.items() if value}


def main() -> None:
    """Become muster; the script and its arguments are the job's."""
    source = read("sourcecode.json")
    script = source.get("entry_script")
    if not script:
        sys.exit("muster: SourceCode has no entry_script, which is what muster is to run")
    env = {**os.environ, **variables(read("distributed.json"))}
    command = ["muster", "train", str(script)]
    try:
        os.execvpe(command[0], command, env)
    except FileNotFoundError:
        sys.exit("muster: the image has no muster: take one of muster's images as training_image")


if __name__ == "__main__":
    main()
