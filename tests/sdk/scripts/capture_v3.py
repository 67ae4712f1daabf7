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
from sagemaker.core.training.configs import (
    Channel,
    CheckpointConfig,
    Compute,
    DataSource,
    InputData,
    S3DataSource,
    SourceCode,
    StoppingCondition,
)
from sagemaker.train.distributed import MPI, SMP, Torchrun
from sagemaker.train.model_trainer import ModelTrainer

# As after `pip install` of muster on the machine that submits jobs.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "entrypoint" / "src"))

from muster.sdk import Muster

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
COMPUTE = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}
SPOT = {
    "compute": Compute(**COMPUTE, enable_managed_spot_training=True),
    "stopping_condition": StoppingCondition(
        max_runtime_in_seconds=3600, max_wait_time_in_seconds=7200
    ),
    "checkpoint_config": CheckpointConfig(
        s3_uri="s3://bucket/checkpoints", local_path="/opt/ml/checkpoints/run"
    ),
}


def channel(name: str, mode: str, kind: str = "S3Prefix", **words: Any) -> Channel:
    """A channel in an input mode of its own: InputData has none."""
    place = f"s3://bucket/{name}"
    s3 = S3DataSource(s3_uri=place, s3_data_type=kind, **words)
    wrapped = {"record_wrapper_type": "RecordIO"} if kind == "AugmentedManifestFile" else {}
    data = DataSource(s3_data_source=s3)
    return Channel(channel_name=name, input_mode=mode, data_source=data, **wrapped)


SHARDED = {"s3_data_distribution_type": "ShardedByS3Key"}
MODES = {
    "training_input_mode": "Pipe",
    "input_data_config": [
        channel("boxes", "Pipe", "AugmentedManifestFile", attribute_names=["source-ref", "boxes"]),
        channel("part", "FastFile", **SHARDED),
        channel("eval", "File"),
    ],
}
# As the SDK's guide has it.
SMP_BOTH = SMP(tensor_parallel_degree=2, hybrid_shard_degree=4, activation_loading_horizon=4)

FORMS: dict[str, dict[str, Any]] = {
    "no-source-code": {"hyperparameters": {**TORCHRUN_BY_HAND, **HYPERPARAMETERS}},
    "entry-script": SCRIPT | {"hyperparameters": HYPERPARAMETERS},
    "command": source(command="muster train train.py"),
    "torchrun": SCRIPT | {"distributed": Torchrun(process_count_per_node=8)},
    "torchrun-smp": SCRIPT | {"distributed": Torchrun(smp=SMP(tensor_parallel_degree=2))},
    "torchrun-smp-hybrid": SCRIPT
    | {"distributed": Torchrun(process_count_per_node=4, smp=SMP_BOTH)},
    "muster-smp": SCRIPT | {"distributed": Muster(process_count_per_node=4, smp=SMP_BOTH)},
    "spot": SPOT | {"hyperparameters": TORCHRUN_BY_HAND},
    "spot-entry-script": SCRIPT | SPOT,
    "modes": MODES | {"hyperparameters": TORCHRUN_BY_HAND},
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
            base_job_name="job",
            sagemaker_session=session,
            **{"compute": Compute(**COMPUTE), **arguments},
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
