"""The one table of variables that the harness reads.

Every setting is read here and nowhere else, once. A variable that is set but
empty counts as not set: SDKs and compose files pass empty values for "nothing".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.errors import ContractError
from muster.settings.check import CHECK
from muster.settings.hosts import ADMISSIONS, HOSTS
from muster.settings.job import ARGS_MODES, JOB, LAUNCHERS
from muster.settings.packages import PACKAGES
from muster.settings.run import LOG_MODES, RUN
from muster.variables import Setting

__all__ = [
    "ADMISSIONS",
    "ARGS_MODES",
    "LAUNCHERS",
    "LOG_MODES",
    "PRIVATE",
    "TABLE",
    "Settings",
    "misspelt",
    "read_settings",
]

TABLE: dict[str, Setting] = {**JOB, **PACKAGES, **HOSTS, **RUN, **CHECK}

PRIVATE = ("MUSTER_JOB_SECRET",)
"""What no process but the harness sees."""


@dataclass(frozen=True)
class Settings:
    """The settings of one run, by the names of TABLE."""

    base_dir: str
    program: str | None
    submit_directory: str | None
    code_dir: str | None
    config: str | None
    checkpoint_dir: str | None
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
    master_port: int
    args_mode: str
    extend_no_proxy: bool
    python: str | None
    requirements: str | None
    install_project: bool
    allow_torch_change: bool
    installer: str
    constraints: str
    ca_repository: str | None
    warm_cache: str | None
    job_arn: str | None
    port: int
    rollcall_s: float
    admit: str
    job_secret: str | None
    beat_s: float
    silence_s: float
    settle_s: float
    straggle_s: float
    addresses: Mapping[str, str]
    log: str
    log_dir: str | None
    hold_s: float
    mask: bool
    stop_grace_s: float
    abort_grace_s: float
    gloo_pause_s: float
    exec_only: bool
    check: str
    severities: Mapping[str, str]
    baseline: str | None
    efa: str


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
