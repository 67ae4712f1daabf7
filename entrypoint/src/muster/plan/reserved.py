"""The reserved hyperparameters, and what each means here. Pure.

SageMaker's SDKs send settings for the container among the hyperparameters
(contract.md 2). Each is honoured somewhere, ignored and said so, or refused: a job
that asks for what can't be done must not run as something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from muster.errors import PlanError

Treatment = Literal["honoured", "ignored", "refused"]


class Reserved(NamedTuple):
    """One row: what is done with it, and where, why, or what to do instead."""

    treatment: Treatment
    why: str


TABLE: dict[str, Reserved] = {
    "sagemaker_program": Reserved("honoured", "the entry point"),
    "sagemaker_submit_directory": Reserved("honoured", "where the code is"),
    "sagemaker_container_log_level": Reserved("honoured", "SM_LOG_LEVEL"),
    "sagemaker_job_name": Reserved("honoured", "the job's name where the platform gives none"),
    "sagemaker_region": Reserved("honoured", "SAGEMAKER_REGION"),
    "sagemaker_torch_distributed_enabled": Reserved("honoured", "launcher torchrun"),
    "sagemaker_mpi_enabled": Reserved("honoured", "launcher mpirun"),
    "sagemaker_pytorch_ddp_enabled": Reserved("honoured", "launcher mpirun, for smddp"),
    "sagemaker_distributed_dataparallel_enabled": Reserved("honoured", "launcher mpirun"),
    "sagemaker_mpi_num_of_processes_per_host": Reserved("honoured", "ranks a host"),
    "sagemaker_distribution_instance_groups": Reserved("honoured", "the world"),
    "sagemaker_instance_type": Reserved("honoured", "as SM_FRAMEWORK_PARAMS"),
    "sagemaker_estimator_class_name": Reserved("honoured", "as SM_FRAMEWORK_PARAMS"),
    "sagemaker_estimator_module": Reserved("honoured", "as SM_FRAMEWORK_PARAMS"),
    "muster_config": Reserved("honoured", "a file with more hyperparameters"),
    "_tuning_objective_metric": Reserved("honoured", "kept from the script"),
    "default_user_module_name": Reserved("honoured", "kept from the script"),
    "sagemaker_enable_cloudwatch_metrics": Reserved("ignored", "the platform's own metrics stay"),
    "sagemaker_s3_output": Reserved("ignored", "nothing is copied to S3 while the job runs"),
    "sagemaker_estimator": Reserved("ignored", "it is for RLEstimator's images"),
    "sagemaker_toolkit_native_launcher_enabled": Reserved("ignored", "AWS's toolkit is not here"),
    "sagemaker_network_interface_name": Reserved("ignored", "resourceconfig.json names it"),
    "sagemaker_num_processes": Reserved("ignored", "it is for Chainer"),
    "sagemaker_process_slots_per_host": Reserved("ignored", "it is for Chainer"),
    "sagemaker_additional_mpi_options": Reserved("ignored", "it is for Chainer"),
    "sagemaker_use_mpi": Reserved("ignored", "it is for Chainer"),
    "sagemaker_recipe_local_path": Reserved("ignored", "a recipe is for AWS's own images"),
    "sagemaker_requirements": Reserved("ignored", "no SDK of today sends it"),
    "sagemaker_mpi_custom_mpi_options": Reserved("honoured", "options of mpirun"),
    "sagemaker_mpi_num_processes": Reserved("ignored", "ranks follow from hosts and GPUs"),
    "sagemaker_distributed_dataparallel_custom_mpi_options": Reserved(
        "honoured", "options of mpirun"
    ),
    "sagemaker_training_compiler_debug_mode": Reserved("ignored", "there is no such compiler here"),
    "sagemaker_training_compiler_enabled": Reserved(
        "refused", "SageMaker Training Compiler has ended: call torch.compile in the script"
    ),
    "sagemaker_pytorch_xla_multi_worker_enabled": Reserved(
        "refused", "PyTorch XLA is not in this image: use torch_distributed"
    ),
    "sagemaker_parameter_server_enabled": Reserved(
        "refused", "parameter servers are TensorFlow's and MXNet's: use torch_distributed"
    ),
    "sagemaker_multi_worker_mirrored_strategy_enabled": Reserved(
        "refused", "MultiWorkerMirroredStrategy is TensorFlow's: use torch_distributed"
    ),
}
"""Every reserved key that an SDK sends or has sent. A test walks it."""

NEURON_VARIABLE = "RUN_NEURON_PARALLEL_COMPILE"


def review(reserved: Mapping[str, str], inherited: Mapping[str, str]) -> tuple[str, ...]:
    """What is to be said about the job's reserved hyperparameters, one line each.

    Args:
        reserved: their texts by key.
        inherited: the container's environment.

    Raises:
        PlanError: the job asks for what can't be done here, or a key looks misspelt.
    """
    if inherited.get(NEURON_VARIABLE) == "1":
        what = f"{NEURON_VARIABLE}=1 asks for AWS Neuron, which is not in this image"
        raise PlanError(what, "Use a GPU or CPU instance, or AWS's Neuron image.")
    notes = [_review_one(key, text) for key, text in sorted(reserved.items())]
    return tuple(note for note in notes if note)


def _review_one(key: str, text: str) -> str | None:
    row = TABLE.get(key)
    if row is None:
        return _unknown(key)
    if row.treatment == "refused" and text.lower() == "true":
        raise PlanError(
            f"hyperparameter {key} can't be honoured", f"{row.why[0].upper()}{row.why[1:]}."
        )
    return f"ignored: {key} ({row.why})" if row.treatment == "ignored" and text else None


def _unknown(key: str) -> str:
    """A key that nobody knows is a later SDK's, or a typing error: then it would be missed."""
    import difflib  # noqa: PLC0415  (3 ms, for a rare case)

    near = difflib.get_close_matches(key, TABLE, n=1, cutoff=0.88)
    if near:
        what = f"hyperparameter {key} is unknown"
        raise PlanError(what, f"Did you mean {near[0]}? Keys with sagemaker_ are reserved.")
    return f"ignored: {key} (unknown; keys with sagemaker_ never reach the script)"
