"""What SDK v3's ModelTrainer would send in its mode SAGEMAKER_TRAINING_JOB. Run by test_captured.py.

Argument: the folder to write to, a NAME.json for each form. capture_v2.py says how the fixtures
are written anew.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import recording
from sagemaker.core.helper.session_helper import Session
from sagemaker.core.training.configs import Compute, InputData, SourceCode
from sagemaker.train.distributed import MPI, SMP, Torchrun
from sagemaker.train.model_trainer import ModelTrainer

HYPERPARAMETERS = {
    "a-bool": True,
    "a-dict": {"b": 1, "c": "d e"},
    "a-float": 1e-05,
    "a-list": [1, "two"],
    "a-none": None,
    "a-number-as-text": "1e10",
    "a-text": "it's $HOME",
    "x": 1,
}
# By hand, as ModelTrainer sends no sagemaker_ key of its own.
TORCHRUN_BY_HAND = {
    "sagemaker_program": "train.py",
    "sagemaker_torch_distributed_enabled": True,
    "sagemaker_mpi_num_of_processes_per_host": 4,
}


def source(**words: str) -> dict[str, Any]:
    """ModelTrainer's `source_code=`: the folder `code`, and what is to run."""
    return {"source_code": SourceCode(source_dir="code", **words)}


SCRIPT = source(entry_script="train.py")

FORMS: dict[str, dict[str, Any]] = {
    "no-source-code": {"hyperparameters": {**TORCHRUN_BY_HAND, **HYPERPARAMETERS}},
    "entry-script": SCRIPT | {"hyperparameters": HYPERPARAMETERS},
    "command": source(command="muster train train.py"),
    "torchrun": SCRIPT | {"distributed": Torchrun(process_count_per_node=8)},
    "torchrun-smp": SCRIPT | {"distributed": Torchrun(smp=SMP(tensor_parallel_degree=2))},
    "mpi": SCRIPT | {"distributed": MPI(process_count_per_node=8)},
}


def main(folder: Path) -> None:
    """Captures every form."""
    # It asks AWS whether the role may do all that ModelTrainer may need.
    os.environ["SAGEMAKER_VALIDATE_ROLE"] = "false"
    recorder = recording.Recorder()
    session = Session(boto_session=recorder.session, default_bucket=recording.BUCKET)
    inputs = [InputData(channel_name="training", data_source="s3://bucket/training")]
    code = InputData(channel_name="code", data_source="s3://bucket/code")
    for name, arguments in FORMS.items():
        trainer = ModelTrainer(
            training_image=recording.IMAGE,
            role=recording.ROLE,
            compute=Compute(instance_type="ml.p4d.24xlarge", instance_count=2),
            base_job_name="job",
            sagemaker_session=session,
            **arguments,
        )
        own = [] if "source_code" in arguments else [code]
        trainer.train(input_data_config=inputs + own, wait=False, logs=False)
        recording.write(recorder.take(), folder / f"{name}.json")


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as code_folder:
        os.chdir(code_folder)
        Path("code").mkdir()
        Path("code", "train.py").touch()
        main(target)
