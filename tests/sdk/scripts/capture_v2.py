"""What SDK v2 would send for each form of a job. Run by test_captured.py.

Argument: the folder to write to, a NAME.json for each form. To write the fixtures anew, after
a change here or for a new release of the SDK, from the checkout:

    MUSTER_TEST_WRITE_PAYLOADS=1 .venv/bin/pytest tests/sdk/test_captured.py
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import recording
from sagemaker import Session
from sagemaker.debugger import (
    CollectionConfig,
    DebuggerHookConfig,
    ProfilerConfig,
    TensorBoardOutputConfig,
)
from sagemaker.estimator import Estimator, EstimatorBase
from sagemaker.huggingface import HuggingFace
from sagemaker.huggingface import TrainingCompilerConfig as HuggingFaceCompiler
from sagemaker.inputs import TrainingInput
from sagemaker.instance_group import InstanceGroup
from sagemaker.pytorch import PyTorch
from sagemaker.pytorch import TrainingCompilerConfig as PyTorchCompiler
from sagemaker.tensorflow import TensorFlow
from sagemaker.tuner import (
    CategoricalParameter,
    ContinuousParameter,
    HyperparameterTuner,
    IntegerParameter,
)

Form = tuple[type, dict[str, Any]]

COMMON = {
    "image_uri": recording.IMAGE,
    "entry_point": "train.py",
    "role": recording.ROLE,
    "instance_count": 2,
    "instance_type": "ml.p4d.24xlarge",
    "hyperparameters": {"epochs": 3, "lr": 0.1},
}
"""Of every form, but for what the form itself says. None leaves an argument out."""

ALL_KINDS = {
    "hyperparameters": {
        "a-bool": True,
        "a-dict": {"b": 1, "c": "d e"},
        "a-float": 1e-05,
        "a-list": [1, "two"],
        "a-none": None,
        "a-number-as-text": "1e10",
        "a-text": "it's $HOME",
        "x": 1,
    }
}
SOURCE_DIR = {"source_dir": "code"}
INPUTS = {"training": "s3://bucket/training"}
MORE_INPUTS = {
    **INPUTS,
    "more.data": TrainingInput(
        "s3://bucket/more",
        distribution="ShardedByS3Key",
        content_type="application/x-npz",
        input_mode="FastFile",
    ),
}
MODES = {
    "input_mode": "Pipe",
    # The SDK has no other way to ask torchrun for several processes.
    "hyperparameters": {"epochs": 3, "lr": 0.1, "sagemaker_mpi_num_of_processes_per_host": 4},
    "inputs": {
        **INPUTS,
        "boxes": TrainingInput(
            "s3://bucket/boxes.manifest",
            s3_data_type="AugmentedManifestFile",
            attribute_names=["source-ref", "boxes"],
            record_wrapping="RecordIO",
            input_mode="Pipe",
        ),
        "part": TrainingInput(
            "s3://bucket/part", distribution="ShardedByS3Key", input_mode="FastFile"
        ),
        "eval": TrainingInput("s3://bucket/eval", input_mode="File"),
    },
}
# By hand: a generic Estimator has no `distribution`.
TORCHRUN_BY_HAND = {
    "sagemaker_torch_distributed_enabled": True,
    "sagemaker_mpi_num_of_processes_per_host": 4,
}
GROUPS_BY_HAND = {**TORCHRUN_BY_HAND, "sagemaker_distribution_instance_groups": ["gpu"]}

ON = {"enabled": True}
MPI = {**ON, "processes_per_host": 8, "custom_mpi_options": "--NCCL_DEBUG WARN"}
SMDDP = {"dataparallel": ON}
SMDDP_WITH_OPTIONS = {"dataparallel": {**ON, "custom_mpi_options": "-verbose"}}
SMP_1 = {"modelparallel": {**ON, "parameters": {"partitions": 2, "ddp": True}}}
SMP_2 = {"modelparallel": {**ON, "parameters": {"tensor_parallel_degree": 2}}}
SMP_2_HYBRID = {
    "modelparallel": {
        **ON,
        "parameters": {
            "tensor_parallel_degree": 2,
            "hybrid_shard_degree": 4,
            "activation_loading_horizon": 2,
        },
    }
}

EIGHT_RANKS = {"hyperparameters": {"sagemaker_mpi_num_of_processes_per_host": 8}}

DATA = InstanceGroup("data", "ml.c5.18xlarge", 1)
GPU = InstanceGroup("gpu", "ml.p4d.24xlarge", 2)
GROUPS = {"instance_groups": [DATA, GPU], "instance_count": None, "instance_type": None}

# The SDK takes a compiler with AWS's own images only (REFUSED has it with ours). The
# hyperparameters can still reach us: by hand, or in a copy of the request.
PYTORCH_1_12 = {
    "image_uri": None,
    "framework_version": "1.12.0",
    "py_version": "py38",
    "compiler_config": PyTorchCompiler(),
}
HUGGINGFACE_1_11 = {
    "image_uri": None,
    "transformers_version": "4.21.1",
    "pytorch_version": "1.11.0",
    "py_version": "py38",
    "compiler_config": HuggingFaceCompiler(debug=True),
}
SPOT = {
    "use_spot_instances": True,
    "max_run": 3600,
    "max_wait": 7200,
    "checkpoint_s3_uri": "s3://bucket/checkpoints",
    "checkpoint_local_path": "/opt/ml/checkpoints",
    "environment": {"OMP_NUM_THREADS": "4"},
}
DEBUGGER = {
    "debugger_hook_config": DebuggerHookConfig(
        hook_parameters={"save_interval": "100"},
        collection_configs=[CollectionConfig(name="losses", parameters={"save_interval": "50"})],
    ),
    "profiler_config": ProfilerConfig(system_monitor_interval_millis=500),
    "tensorboard_output_config": TensorBoardOutputConfig("s3://bucket/tensorboard"),
}
HF = {"py_version": "py310"}
TF = {"framework_version": "2.9"}


def distribution(**parts: Any) -> dict[str, Any]:
    """An estimator's `distribution=`."""
    return {"distribution": parts}


TORCHRUN = distribution(torch_distributed=ON)

FORMS: dict[str, Form] = {
    "generic": (Estimator, ALL_KINDS),
    "generic-source-dir": (Estimator, ALL_KINDS | SOURCE_DIR | {"inputs": MORE_INPUTS}),
    "generic-debugger": (Estimator, DEBUGGER),
    "generic-by-hand": (Estimator, {"hyperparameters": TORCHRUN_BY_HAND}),
    "generic-groups": (Estimator, GROUPS | {"hyperparameters": GROUPS_BY_HAND}),
    "generic-groups-source-dir": (
        Estimator,
        GROUPS | SOURCE_DIR | {"hyperparameters": GROUPS_BY_HAND},
    ),
    "pytorch": (PyTorch, ALL_KINDS),
    "pytorch-shell": (PyTorch, {"entry_point": "train.sh"}),
    "pytorch-torchrun": (PyTorch, TORCHRUN),
    "pytorch-mpi": (PyTorch, distribution(mpi=MPI)),
    "pytorch-smddp": (PyTorch, distribution(smdistributed=SMDDP)),
    "pytorch-smddp-options": (PyTorch, distribution(smdistributed=SMDDP_WITH_OPTIONS)),
    "pytorch-pytorchddp": (PyTorch, distribution(pytorchddp=ON)),
    "pytorch-smp-1": (PyTorch, distribution(smdistributed=SMP_1, mpi=MPI)),
    "pytorch-smp-2": (PyTorch, distribution(smdistributed=SMP_2, torch_distributed=ON)),
    "pytorch-smp-2-hybrid": (
        PyTorch,
        distribution(smdistributed=SMP_2_HYBRID, torch_distributed=ON) | EIGHT_RANKS,
    ),
    "pytorch-compiler": (PyTorch, PYTORCH_1_12),
    "pytorch-xla": (PyTorch, PYTORCH_1_12 | distribution(pytorchxla=ON)),
    "pytorch-spot": (PyTorch, SPOT | TORCHRUN),
    "pytorch-modes": (PyTorch, MODES | TORCHRUN),
    "pytorch-modes-isolated": (PyTorch, MODES | {"enable_network_isolation": True} | TORCHRUN),
    "pytorch-isolated": (PyTorch, {"enable_network_isolation": True} | TORCHRUN),
    "pytorch-groups-mpi": (PyTorch, GROUPS | distribution(mpi=MPI, instance_groups=[GPU])),
    "pytorch-groups-smddp": (
        PyTorch,
        GROUPS | distribution(smdistributed=SMDDP, instance_groups=[GPU]),
    ),
    "pytorch-groups-torchrun": (
        PyTorch,
        GROUPS | distribution(torch_distributed=ON, instance_groups=[GPU]),
    ),
    "huggingface-torchrun": (HuggingFace, HF | TORCHRUN),
    "huggingface-pytorchddp": (HuggingFace, HF | distribution(pytorchddp=ON)),
    "huggingface-compiler": (HuggingFace, HUGGINGFACE_1_11),
    "huggingface-xla": (HuggingFace, HUGGINGFACE_1_11 | distribution(pytorchxla=ON)),
    "tensorflow-parameter-server": (TensorFlow, TF | distribution(parameter_server=ON)),
    "tensorflow-mirrored": (TensorFlow, TF | distribution(multi_worker_mirrored_strategy=ON)),
}

TUNED: dict[str, tuple[Form, bool]] = {
    "tuner-generic": ((Estimator, {}), False),
    "tuner-generic-metadata": ((Estimator, {}), True),
    "tuner-pytorch": ((PyTorch, TORCHRUN), False),
    "tuner-pytorch-metadata": ((PyTorch, TORCHRUN), True),
}
"""Forms of HyperparameterTuner: the estimator, and include_cls_metadata."""

REFUSED: dict[str, Form] = {
    "our image with a compiler": (PyTorch, PYTORCH_1_12 | {"image_uri": recording.IMAGE}),
    "XLA without a compiler": (PyTorch, distribution(pytorchxla=ON)),
    "torchrun with a shell script": (PyTorch, TORCHRUN | {"entry_point": "train.sh"}),
    "two groups, none named": (PyTorch, GROUPS | TORCHRUN),
    "two groups, both named": (
        PyTorch,
        GROUPS | distribution(mpi=MPI, instance_groups=[DATA, GPU]),
    ),
    "a group for parameter servers": (
        TensorFlow,
        GROUPS | TF | distribution(parameter_server=ON, instance_groups=[GPU]),
    ),
    "smddp on newer GPUs": (
        PyTorch,
        distribution(smdistributed=SMDDP) | {"instance_type": "ml.p5.48xlarge"},
    ),
}
"""What the SDK itself refuses: no such job can come. That it does is checked as well."""


def make(session: Session, form: Form) -> EstimatorBase:
    """The form's estimator."""
    kind, changes = form
    chosen = {key: value for key, value in {**COMMON, **changes}.items() if value is not None}
    chosen.pop("inputs", None)
    return kind(sagemaker_session=session, **chosen)


def fit(session: Session, form: Form) -> None:
    """Asks for a training job."""
    inputs = form[1].get("inputs", INPUTS)
    make(session, form).fit(inputs, wait=False, job_name="job")


def tune(session: Session, form: Form, *, metadata: bool) -> None:
    """Asks for a tuning job."""
    tuner = HyperparameterTuner(
        make(session, form),
        objective_metric_name="accuracy",
        metric_definitions=[{"Name": "accuracy", "Regex": "accuracy=([0-9.]+)"}],
        hyperparameter_ranges={
            "lr": ContinuousParameter(0.01, 0.2),
            "batch-size": IntegerParameter(16, 64),
            "optimizer": CategoricalParameter(["sgd", "adam"]),
        },
        max_jobs=2,
    )
    tuner.fit(INPUTS, wait=False, job_name="job", include_cls_metadata=metadata)


def is_refused(session: Session, form: Form) -> bool:
    """Whether the SDK says so before it asks for the job."""
    try:
        fit(session, form)
    except ValueError:
        return True
    return False


def main(folder: Path) -> None:
    """Captures every form."""
    # Each look-up of the SDK's defaults checks the SDK's own schema, a fifth of a second each.
    jsonschema.validators.Draft202012Validator.check_schema = lambda *_, **__: None
    recorder = recording.Recorder()
    session = Session(boto_session=recorder.session, default_bucket=recording.BUCKET)
    for name, form in FORMS.items():
        fit(session, form)
        recording.write(recorder.take(), folder / f"{name}.json")
    for name, (form, metadata) in TUNED.items():
        tune(session, form, metadata=metadata)
        recording.write(recorder.take(), folder / f"{name}.json")
    taken = [name for name, form in REFUSED.items() if not is_refused(session, form)]
    assert not taken, f"the SDK takes these now: {taken}"


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as code:
        os.chdir(code)
        for script in ("train.py", "train.sh", "code/train.py"):
            Path(script).parent.mkdir(exist_ok=True)
            Path(script).touch()
        main(target)
