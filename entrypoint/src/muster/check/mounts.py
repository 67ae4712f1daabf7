"""Which kind of file system a folder is on, without a look at the folder. Effects: reads /proc/mounts."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ESCAPE = re.compile(r"\\([0-7]{3})")
_MEMORY = ("tmpfs", "ramfs")


@dataclass(frozen=True)
class Mount:
    """One line of /proc/mounts (https://man7.org/linux/man-pages/man5/fstab.5.html)."""

    source: str
    target: str
    type: str

    @property
    def kind(self) -> str:
        """What SageMaker's users call it."""
        if self.type == "lustre":
            return "FSx for Lustre"
        if self.type.startswith("nfs"):
            # Encrypted, EFS is mounted through a tunnel on this host.
            return (
                "EFS" if ".efs." in self.source or self.source.startswith("127.0.0.1:") else "NFS"
            )
        if self.type.startswith("fuse"):
            return "FUSE (FastFile)"
        return "memory" if self.type in _MEMORY else f"disk ({self.type})"

    @property
    def fetches(self) -> bool:
        """Whether each read is a request to S3: little is asked of it."""
        return self.type.startswith("fuse")


def read_mounts(proc: str) -> tuple[Mount, ...]:
    """All mounts of this container. Raises OSError."""
    with open(f"{proc}/mounts", encoding="utf-8", errors="replace") as file:
        lines = [line.split() for line in file]
    return tuple(Mount(_plain(w[0]), _plain(w[1]), w[2]) for w in lines if len(w) > 2)  # noqa: PLR2004


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """The mount that a path is on; the last of several at one place hides the others. Pure."""
    found = None
    for mount in mounts:
        below = mount.target.rstrip("/") + "/"
        if f"{path}/".startswith(below) and (
            found is None or len(mount.target) >= len(found.target)
        ):
            found = mount
    return found


def _plain(text: str) -> str:
    """A blank and the like are written as three octal digits."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
