"""The variables of a host, whatever it is. Pure, but for the count of this machine's processors."""

from __future__ import annotations

import re
from collections.abc import Mapping

from muster.contract.machine import usable_cpus
from muster.local.folders import LocalHost
from muster.local.options import Options

_OF_THIS_MACHINE = re.compile(
    # The shell, the user, the session.
    r"_|PATH|HOME|USER|LOGNAME|SHELL|SHLVL|PWD|OLDPWD|HOSTNAME|MAIL|TERM|LS_COLORS|PS\d|EDITOR|PAGER"
    r"|TMPDIR|TEMP|TMP|DISPLAY|XAUTHORITY|LANG|LANGUAGE|LC_.*|XDG_.*|SSH_.*|DBUS_.*"
    # Programs and libraries.
    r"|VIRTUAL_ENV.*|CONDA_.*|PYTHON.*|PIP_.*|UV_.*|LD_.*|CUDA_HOME|CUDA_PATH|DOCKER_.*|COMPOSE_.*"
    # The way out, which an internal network doesn't have.
    r"|(?i:(https?|ftp|all|no)_proxy)|.*(_CA_BUNDLE|_CA_CERTS|_CERT_FILE|_CERT_DIR)"
    # What `muster local` itself decides.
    r"|SAGEMAKER_BASE_DIR|SAGEMAKER_SUBMIT_DIRECTORY|MUSTER_ADDRESSES"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def job_env(options: Options, host: LocalHost, env: Mapping[str, str]) -> dict[str, str]:
    """`env` with what the options say, and with a default for what hosts on one machine share."""
    return (
        # All hosts share this machine's cores.
        {"OMP_NUM_THREADS": str(max(1, usable_cpus() // (options.hosts * options.nproc)))}
        | dict(env)
        | {"TRAINING_JOB_NAME": host.job, "MUSTER_NPROC": str(options.nproc)}
        | ({"MUSTER_LAUNCHER": options.launcher} if options.launcher else {})
    )


def portable(env: Mapping[str, str]) -> dict[str, str]:
    """What of `env` means the same in a container: all but what is about this machine. Pure."""
    return {
        name: value
        for name, value in env.items()
        if _NAME.fullmatch(name) and not _OF_THIS_MACHINE.fullmatch(name)
    }
