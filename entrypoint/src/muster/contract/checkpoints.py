"""Which folder SageMaker keeps in step with S3. Effects: reads a file."""

from __future__ import annotations

import os

from muster.contract.exportable import refuse_unexportable
from muster.contract.files import read_object
from muster.contract.precedence import Choice, choose
from muster.errors import ContractError
from muster.model import Paths
from muster.settings import Settings

_FILE = "checkpointconfig.json"
_PLATFORMS_BASE = "/opt/ml"


def find_folder(settings: Settings, paths: Paths) -> Choice[str]:
    """MUSTER_CHECKPOINT_DIR, else the LocalPath of checkpointconfig.json; no value without both.

    Raises:
        ContractError: the file can't be read, or names no folder.
    """
    return choose(
        "checkpoint folder",
        (settings.checkpoint_dir, "MUSTER_CHECKPOINT_DIR"),
        (_named(paths), _FILE),
    )


def _named(paths: Paths) -> str | None:
    """What the file names; it is absent where the job has no CheckpointConfig."""
    config = read_object(paths.config, _FILE)
    if not config:
        return None
    path = config.get("LocalPath")
    if path is None:
        return paths.checkpoints
    where = f"{os.path.join(paths.config, _FILE)}: LocalPath"
    remedy = "The job's CheckpointConfig has it: an absolute path, such as /opt/ml/checkpoints."
    if not isinstance(path, str) or not path.startswith("/"):
        raise ContractError(f"{where} is no absolute path", remedy)
    refuse_unexportable(where, path, remedy)
    if f"{path}/".startswith(f"{_PLATFORMS_BASE}/"):
        # SAGEMAKER_BASE_DIR stands for /opt/ml, also in what the platform has written.
        path = paths.base.rstrip("/") + path[len(_PLATFORMS_BASE) :]
    return path.rstrip("/") or "/"
