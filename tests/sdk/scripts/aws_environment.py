"""What AWS's script in a ModelTrainer job exports for a job's files. Run by test_replay.py.

Arguments: the folder with the files of input/config, and the file to write. The module is what the
SDK sends along as sm_drivers/scripts/environment.py.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from sagemaker.train.container_drivers.scripts import environment


def main(config: Path, target: Path) -> None:
    """Writes the exports."""
    hyperparameters, resources, channels = (
        json.loads((config / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("hyperparameters", "resourceconfig", "inputdataconfig")
    )
    os.environ["TRAINING_JOB_NAME"] = "job"
    environment.set_env(
        resource_config=resources,
        input_data_config=channels,
        hyperparameters_config=hyperparameters,
        output_file=str(target),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
