"""Answers, for contracts on stdin, what AWS's sagemaker-training makes of them. One JSON a line.

In: {"hyperparameters": …, "resourceconfig": …, "inputdataconfig": …}, as in /opt/ml.
Out: {"env": {…}, "args": […]}, its SM_* variables and the script's arguments.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from pathlib import Path

os.environ["SAGEMAKER_BASE_DIR"] = tempfile.mkdtemp(prefix="toolkit-")

from sagemaker_training import environment

logging.disable(logging.CRITICAL)

# Each of these starts a program, four times a contract. What this machine has is no part of a contract.
environment.num_gpus = lambda: 0
environment.num_cpus = lambda: 2
environment.num_neurons = lambda _type: 0
environment.validate_smddprun = lambda: False
environment.validate_smddpmprun = lambda: False


def answer(contract: dict[str, dict[str, object]]) -> dict[str, object]:
    """What the toolkit makes of one contract."""
    for name, value in contract.items():
        path = Path(environment.input_config_dir) / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")
    made = environment.Environment()
    return {"env": made.to_env_vars(), "args": made.to_cmd_args()}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
