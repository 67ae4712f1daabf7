"""Folders for code that is fetched or unpacked. Effects: files."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile

from muster.code.unpack import partial_prefix
from muster.errors import CodeError


class Scratch:
    """Fresh folders, of which the temporary ones go with the run.

    Args:
        preferred: where scripts expect their code, as /opt/ml/code; taken if nothing is there. None for no such place.
    """

    def __init__(self, preferred: str | None) -> None:
        self._preferred = preferred
        self._made: list[str] = []
        self._beside = ""

    def folder(self) -> str:
        """A path that does not exist or is an empty folder, whose parent is writable.

        Raises:
            CodeError: there is no room for temporary files.
        """
        if self._preferred and _is_free(self._preferred):
            preferred, self._preferred = self._preferred, None
            self._beside = os.path.dirname(preferred)
            return preferred
        return os.path.join(self.temporary(), "code")

    def temporary(self) -> str:
        """A new temporary folder. Raises CodeError."""
        try:
            made = tempfile.mkdtemp(prefix="muster-code-")
            os.chmod(made, 0o755)  # noqa: S103  (ranks may run as another user)
        except OSError as error:
            what = f"no temporary folder for the code: {error.strerror or error}"
            raise CodeError(what, "Give the container a writable /tmp, or set TMPDIR.") from error
        self._made.append(made)
        return made

    def remove(self) -> None:
        """Removes the temporary folders, and what an unpacking that was cut short has left."""
        for made in [*self._made, *self._partial()]:
            shutil.rmtree(made, ignore_errors=True)
        self._made.clear()

    def _partial(self) -> list[str]:
        if not self._beside:
            return []
        prefix = os.path.join(glob.escape(self._beside), partial_prefix())
        return glob.glob(f"{prefix}*")


def _is_free(folder: str) -> bool:
    """Whether a folder of this name can come from elsewhere: there is none, or an empty one that is no mount."""
    try:
        empty = not os.path.lexists(folder) or (
            not os.listdir(folder) and not os.path.islink(folder)
        )
    except OSError:
        return False
    return empty and not os.path.ismount(folder) and os.access(os.path.dirname(folder), os.W_OK)
