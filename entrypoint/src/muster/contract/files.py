"""Reading the platform's JSON files. Effects: reads files."""

from __future__ import annotations

import json
import os
from typing import Any

from muster.errors import ContractError


def read_object(folder: str, name: str) -> dict[str, Any]:
    """The JSON object in `folder/name`; empty when the file is absent.

    An absent file and an empty object mean the same: the platform leaves out what
    a job doesn't use (contract.md 1.2). A file of zero bytes is a broken write.

    Raises:
        ContractError: the file is unreadable, is not JSON, or holds no object.
    """
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        what = f"{path} can't be read: {error.strerror}"
        remedy = "SageMaker writes it as root: run the container as root."
        if isinstance(error, IsADirectoryError):
            remedy = "Docker makes a folder of a -v whose file does not exist."
        raise ContractError(what, remedy) from error
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        where = _position(error)
        what = f"{path} is not JSON{where}" if raw.strip() else f"{path} is empty"
        raise ContractError(what, "It must hold one JSON object.") from None
    if not isinstance(value, dict):
        what = f"{path} holds {type(value).__name__}, not an object"
        raise ContractError(what, "It must hold one JSON object.")
    return value


def list_folders(folder: str) -> dict[str, Any]:
    """The folders in `folder` as inputdataconfig.json would name them.

    For a bare `docker run -v DATA:/opt/ml/input/data/training`, which has no such file.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        return {}
    return {name: {"TrainingInputMode": "File"} for name in names}


def _position(error: Exception) -> str:
    # The text around the error is left out on purpose: it may be a secret.
    if isinstance(error, UnicodeDecodeError):
        return " in UTF-8"
    if isinstance(error, json.JSONDecodeError):
        return f" (line {error.lineno}, column {error.colno}: {error.msg})"
    return ""
