"""Variables about what is run: the job, its code, the launcher and the ranks."""

from __future__ import annotations

from muster.variables import Setting, folder, one_of, port, positive, switch

LAUNCHERS = ("torchrun", "mpirun", "horovodrun", "cluster", "plain")
"""Every launcher by the name a user types."""


ARGS_MODES = ("plain", "toolkit", "flags", "equals", "none")
"""The ways in which hyperparameters become arguments; contract/argv.py has a function for each."""

JOB: dict[str, Setting] = {
    "base_dir": Setting(
        "SAGEMAKER_BASE_DIR", str, "/opt/ml", "a folder", "The folder that stands for /opt/ml."
    ),
    "program": Setting(
        "SAGEMAKER_PROGRAM",
        str,
        None,
        "a file in the code folder",
        "The entry point. Wins over the hyperparameter sagemaker_program.",
    ),
    "submit_directory": Setting(
        "SAGEMAKER_SUBMIT_DIRECTORY",
        str,
        None,
        "a folder, an archive, file:// or s3://",
        "Where the code is, unless the hyperparameter sagemaker_submit_directory or the channel code says.",
    ),
    "code_dir": Setting(
        "MUSTER_CODE_DIR", str, None, "a folder", "Code that was put into the image."
    ),
    "config": Setting(
        "MUSTER_CONFIG",
        str,
        None,
        "a YAML or JSON file in the code, or CHANNEL/FILE",
        "More hyperparameters, below those of the job. The hyperparameter muster_config wins.",
    ),
    "checkpoint_dir": Setting(
        "MUSTER_CHECKPOINT_DIR",
        folder,
        None,
        "an absolute path",
        "Where checkpoints are (docs/checkpoints.md). Otherwise what the job names, or "
        "/opt/ml/checkpoints. Every rank finds it set.",
    ),
    "job_name": Setting(
        "TRAINING_JOB_NAME", str, None, "a name", "The job's name, set by the platform."
    ),
    "region": Setting(
        "AWS_REGION", str, None, "a region", "The region, unless sagemaker_region says."
    ),
    "log_level": Setting(
        "SAGEMAKER_CONTAINER_LOG_LEVEL",
        str,
        None,
        "a number or a name",
        "What SM_LOG_LEVEL says, unless sagemaker_container_log_level does. Otherwise 20.",
    ),
    "launcher": Setting(
        "MUSTER_LAUNCHER",
        str,
        None,
        "one of " + ", ".join(LAUNCHERS),
        "The launcher. Wins over what the SDK's `distribution` asks for.",
    ),
    "mpi_options": Setting(
        "MUSTER_MPI_OPTIONS",
        str,
        None,
        "options of mpirun",
        "Options for mpirun, in the place of sagemaker_mpi_custom_mpi_options.",
    ),
    "smddp_fallback": Setting(
        "MUSTER_SMDDP_FALLBACK",
        one_of(("nccl",)),
        None,
        "nccl",
        "What to do where SageMaker's data parallel library can't work: go on, with MUSTER_BACKEND=nccl.",
    ),
    "horovod_controller": Setting(
        "MUSTER_HOROVOD_CONTROLLER",
        one_of(("gloo", "mpi")),
        "gloo",
        "gloo or mpi",
        "How Horovod's ranks find each other.",
    ),
    "default_launcher": Setting(
        "MUSTER_DEFAULT_LAUNCHER",
        str,
        "torchrun",
        "one of " + ", ".join(LAUNCHERS),
        "The image's own launcher, used when the job names none.",
    ),
    "nproc": Setting(
        "MUSTER_NPROC",
        positive,
        None,
        "a whole number from 1",
        "Ranks a host. Otherwise: processes_per_host, the visible GPUs, or 1.",
    ),
    "oversubscribe": Setting(
        "MUSTER_OVERSUBSCRIBE",
        switch,
        default=False,
        accepts="1 or 0",
        meaning="Allow more ranks than GPUs on a host: for gloo, or for ranks that share a GPU.",
    ),
    "image_device": Setting(
        "MUSTER_IMAGE_DEVICE",
        one_of(("cpu", "gpu")),
        "cpu",
        "cpu or gpu",
        "What the image is made for. A GPU image sets it, and then needs a GPU.",
    ),
    "allow_cpu": Setting(
        "MUSTER_ALLOW_CPU",
        switch,
        default=False,
        accepts="1 or 0",
        meaning="Let a GPU image run on a host without GPUs.",
    ),
    "local_rank_arg": Setting(
        "MUSTER_LOCAL_RANK_ARG",
        one_of(("--local-rank", "--local_rank")),
        None,
        "--local-rank or --local_rank",
        "Give each rank its LOCAL_RANK as this argument too, for scripts of the older launcher.",
    ),
    "master_port": Setting(
        "MUSTER_MASTER_PORT", port, 7777, "1 to 65535", "The port on which the ranks meet."
    ),
    "args_mode": Setting(
        "MUSTER_ARGS",
        one_of(ARGS_MODES),
        "plain",
        "one of " + ", ".join(ARGS_MODES),
        "How hyperparameters become the script's arguments.",
    ),
    "extend_no_proxy": Setting(
        "MUSTER_EXTEND_NO_PROXY",
        switch,
        default=True,
        accepts="1 or 0",
        meaning="Where a proxy is set: except the job's hosts and AWS's own addresses from it.",
    ),
    "python": Setting(
        "MUSTER_PYTHON",
        str,
        None,
        "an interpreter",
        "The Python of the script. Otherwise python3 or python on PATH.",
    ),
}
