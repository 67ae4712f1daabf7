"""The one table of variables that the harness reads.

Every setting is read here and nowhere else, once. A variable that is set but
empty counts as not set: SDKs and compose files pass empty values for "nothing".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.errors import ContractError
from muster.variables import Setting, addresses, duration, one_of, port, positive, seconds, switch

LAUNCHERS = ("torchrun", "mpirun", "horovodrun", "direct", "cluster", "plain")
"""Every launcher by the name a user types; plan/ says which of them this version has."""


ARGS_MODES = ("plain", "toolkit", "flags", "equals", "none")
"""The ways in which hyperparameters become arguments; contract/argv.py has a function for each."""

ADMISSIONS = ("name", "secret")
"""What a host must show to join: an address of its name, or the job's secret alone."""

LOG_MODES = ("rank0-raw", "prefix", "rank0", "failed")
"""What of the ranks' output the log shows; launch/policy.py says what each does."""

TABLE: dict[str, Setting] = {
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
        "a folder or file://",
        "Where the code is, unless the hyperparameter sagemaker_submit_directory says.",
    ),
    "code_dir": Setting(
        "MUSTER_CODE_DIR", str, None, "a folder", "Code that was put into the image."
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
        "More options for mpirun. Win over sagemaker_mpi_custom_mpi_options.",
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
    "job_arn": Setting(
        "TRAINING_JOB_ARN", str, None, "an ARN", "What names the job to its hosts, set by AWS."
    ),
    "port": Setting(
        "MUSTER_PORT", port, 7770, "1 to 65535", "The port of the first host, where hosts meet."
    ),
    "rollcall_s": Setting(
        "MUSTER_ROLLCALL_S",
        seconds,
        900.0,
        "seconds",
        "How long the hosts of the job may take to start.",
    ),
    "admit": Setting(
        "MUSTER_ADMIT",
        one_of(ADMISSIONS),
        "name",
        "one of " + ", ".join(ADMISSIONS),
        "Who may join: name, hosts that call from an address of their name; secret, hosts that "
        "know MUSTER_JOB_SECRET, from anywhere.",
    ),
    "job_secret": Setting(
        "MUSTER_JOB_SECRET",
        str,
        None,
        "a random text",
        "What only this job's hosts know (docs/channel.md). The script does not see it.",
    ),
    "beat_s": Setting(
        "MUSTER_BEAT_S", duration, 2.0, "seconds", "How often hosts tell each other that they live."
    ),
    "silence_s": Setting(
        "MUSTER_SILENCE_S",
        duration,
        10.0,
        "seconds",
        "After so long a silence a host is lost, and a rank that SIGSTOP has stopped is stalled.",
    ),
    "settle_s": Setting(
        "MUSTER_SETTLE_S",
        seconds,
        1.0,
        "seconds",
        "How long an earlier cause may still come in from another host after a failure.",
    ),
    "straggle_s": Setting(
        "MUSTER_STRAGGLE_S",
        seconds,
        600.0,
        "seconds",
        "How long the last ranks may run after others have ended well; 0: for ever.",
    ),
    "master_port": Setting(
        "MUSTER_MASTER_PORT", port, 7777, "1 to 65535", "The port on which the ranks meet."
    ),
    "addresses": Setting(
        "MUSTER_ADDRESSES",
        addresses,
        {},
        "host=address,host=address",
        "Addresses of hosts whose names don't resolve.",
    ),
    "args_mode": Setting(
        "MUSTER_ARGS",
        one_of(ARGS_MODES),
        "plain",
        "one of " + ", ".join(ARGS_MODES),
        "How hyperparameters become the script's arguments.",
    ),
    "exec_only": Setting(
        "MUSTER_EXEC",
        switch,
        default=False,
        accepts="1 or 0",
        meaning="Replace the harness by the launcher: no supervision, no failure file.",
    ),
    "log": Setting(
        "MUSTER_LOG",
        one_of(LOG_MODES),
        "rank0-raw",
        "one of " + ", ".join(LOG_MODES),
        "Whose output the log shows, and how (docs/design.md). What it hides is in files.",
    ),
    "log_dir": Setting(
        "MUSTER_LOG_DIR",
        str,
        None,
        "a folder",
        "Each rank's whole output as files, at most 512 MiB a stream.",
    ),
    "hold_s": Setting(
        "MUSTER_HOLD_S",
        seconds,
        0.0,
        "seconds",
        "How long a failed container stays, for a look into it. A stop ends the wait.",
    ),
    "mask": Setting(
        "MUSTER_MASK",
        switch,
        default=True,
        accepts="1 or 0",
        meaning="Hide secrets in the log, the failure file and the record.",
    ),
    "stop_grace_s": Setting(
        "MUSTER_STOP_GRACE_S",
        seconds,
        110.0,
        "seconds",
        "Time for the ranks to save after SIGTERM. SageMaker kills after 120.",
    ),
    "abort_grace_s": Setting(
        "MUSTER_ABORT_GRACE_S",
        seconds,
        10.0,
        "seconds",
        "Time for the other ranks to end after one has failed.",
    ),
    "gloo_pause_s": Setting(
        "MUSTER_GLOO_PAUSE_S",
        seconds,
        0.1,
        "seconds",
        "How long a rank with threads of gloo waits for them at its end (training/gloo.py).",
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


PRIVATE = ("MUSTER_JOB_SECRET",)
"""What no process but the harness sees."""


@dataclass(frozen=True)
class Settings:
    """The settings of one run, by the names of TABLE."""

    base_dir: str
    program: str | None
    submit_directory: str | None
    code_dir: str | None
    job_name: str | None
    region: str | None
    log_level: str | None
    launcher: str | None
    mpi_options: str | None
    smddp_fallback: str | None
    horovod_controller: str
    default_launcher: str
    nproc: int | None
    oversubscribe: bool
    image_device: str
    allow_cpu: bool
    local_rank_arg: str | None
    job_arn: str | None
    port: int
    rollcall_s: float
    admit: str
    job_secret: str | None
    beat_s: float
    silence_s: float
    settle_s: float
    straggle_s: float
    master_port: int
    addresses: Mapping[str, str]
    args_mode: str
    exec_only: bool
    log: str
    log_dir: str | None
    hold_s: float
    mask: bool
    stop_grace_s: float
    abort_grace_s: float
    gloo_pause_s: float
    extend_no_proxy: bool
    python: str | None


def read_settings(env: Mapping[str, str]) -> Settings:
    """The settings in `env`, with defaults for the rest. Pure.

    Raises:
        ContractError: a variable's text can't be read; the message names it and
            says what is accepted.
    """
    values = {name: _read(setting, env) for name, setting in TABLE.items()}
    if values["admit"] == "secret" and not values["job_secret"]:
        what = "MUSTER_ADMIT=secret needs a MUSTER_JOB_SECRET"
        raise ContractError(what, "Without it anybody could join: set the same one for all hosts.")
    if values["silence_s"] <= values["beat_s"]:
        what = "MUSTER_SILENCE_S is not longer than MUSTER_BEAT_S"
        raise ContractError(what, "Every host would be lost before it could be heard.")
    return Settings(**values)


def misspelt(env: Mapping[str, str]) -> tuple[str, ...]:
    """A line for each MUSTER_ variable that is none but looks like one. Pure.

    Others may be somebody else's: builds and tests have MUSTER_ variables too.
    """
    known = {setting.variable for setting in TABLE.values()}
    unknown = [name for name in sorted(env) if name.startswith("MUSTER_") and name not in known]
    if not unknown:
        return ()
    import difflib  # noqa: PLC0415  (3 ms, for a rare case)

    near = {name: difflib.get_close_matches(name, known, n=1, cutoff=0.9) for name in unknown}
    return tuple(
        f"unknown variable {name}: did you mean {names[0]}?"
        for name, names in near.items()
        if names
    )


def _read(setting: Setting, env: Mapping[str, str]) -> Any:
    text = env.get(setting.variable, "")
    if not text:
        return setting.default
    try:
        return setting.parse(text)
    except ValueError:
        what = f"{setting.variable}={text!r} can't be read: it takes {setting.accepts}"
        raise ContractError(what, setting.meaning) from None
