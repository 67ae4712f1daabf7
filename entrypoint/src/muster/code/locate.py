"""Where the user's code is, and which file is the entry point. Effects: looks at files."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from urllib.parse import unquote

from muster.code.entry import command_for, find_python
from muster.errors import CodeError, ContractError
from muster.model import Code, Job
from muster.settings import Settings

_LISTED = 20
_WAYS = (
    "Name it in one of three ways: the hyperparameter sagemaker_program (an Estimator's "
    "entry_point sends it), the variable SAGEMAKER_PROGRAM, or `muster train SCRIPT`."
)


def locate(job: Job, settings: Settings, env: Mapping[str, str]) -> Code:
    """The code directory and the entry point's command.

    An explicit submit directory wins over everything that lies in the image; with none
    given, the first of these that holds the entry point is taken: the channel `code`,
    MUSTER_CODE_DIR, /opt/ml/code. `muster train SCRIPT` looks from the current folder first.

    Raises:
        ContractError: the job names no entry point.
        CodeError: the entry point or the submit directory does not exist, or its kind
            of address is not supported.
    """
    if not job.program:
        raise ContractError("the job names no entry point", _WAYS)
    folders = _folders(job, settings)
    for folder in folders:
        path = os.path.normpath(os.path.join(folder, job.program))
        if _is_file(path):
            command = command_for(path, lambda: find_python(settings.python, env))
            return Code(folder, job.program, command)
    raise _missing(job, folders)


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError as error:
        # Not the same as a file that isn't there: this one would be found by root.
        what = f"the entry point {path} can't be read by user {os.getuid()}"
        raise CodeError(what, "Make its folders readable, or run the container as root.") from error
    except (OSError, ValueError):
        return False


def _folders(job: Job, settings: Settings) -> list[str]:
    if job.submit_directory:
        return [_submit_folder(job.submit_directory)]
    folders = [
        os.path.join(job.paths.data, "code"),
        settings.code_dir or "",
        job.paths.code,
    ]
    if job.program_source == "the command line":
        folders.insert(0, os.getcwd())
    return [folder for folder in folders if folder and os.path.isdir(folder)]


def _submit_folder(address: str) -> str:
    scheme, is_url, rest = address.partition("://")
    if is_url and scheme != "file":
        what = f"code from {scheme}:// is not supported by this version ({address})"
        raise CodeError(what, "Send the code as the channel `code`, or put it into the image.")
    # SDK v2 writes file:///path. In a plain path nothing is an escape.
    folder = "/" + unquote(rest).partition("/")[2] if is_url else address
    if os.path.isfile(folder):
        what = f"code as an archive is not supported by this version ({folder})"
        raise CodeError(what, "Unpack it into the channel `code`, or put it into the image.")
    if not os.path.isdir(folder):
        raise CodeError(f"the submit directory {folder} does not exist")
    return folder


def _missing(job: Job, folders: list[str]) -> CodeError:
    what = f"the entry point {job.program} ({job.program_source}) does not exist"
    if any(os.path.isdir(os.path.join(folder, job.program or "")) for folder in folders):
        what = f"the entry point {job.program} ({job.program_source}) is a folder"
    if not folders:
        searched = f"{job.paths.data}/code, {job.paths.code}"
        return CodeError(
            what, f"There is no code at all: no folder {searched}, no MUSTER_CODE_DIR."
        )
    return CodeError(what, "\n".join(f"{folder} holds: {_listing(folder)}" for folder in folders))


def _listing(folder: str) -> str:
    names = sorted(os.listdir(folder))
    if not names:
        return "nothing"
    shown = ", ".join(names[:_LISTED])
    rest = len(names) - _LISTED
    return f"{shown} and {rest} more" if rest > 0 else shown
