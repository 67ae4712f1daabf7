"""Installs Open MPI from Debian, without the SSH client that its package asks for: muster-rsh takes that one's place."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import apt_install

CONTROL = """Package: muster-rsh
Version: 1.0
Architecture: all
Maintainer: muster
Provides: ssh-client
Description: starts programs on the other hosts of a job, through muster and without SSH
"""


def main() -> int:
    """Install mpirun and Open MPI's libraries. Raises CalledProcessError. Effects: Debian packages."""
    with tempfile.TemporaryDirectory() as folder:
        control = Path(folder, "rsh/DEBIAN/control")
        control.parent.mkdir(parents=True)
        control.write_text(CONTROL, encoding="utf-8")
        package = f"{folder}/muster-rsh.deb"
        command = ["dpkg-deb", "--build", "--root-owner-group", f"{folder}/rsh", package]
        subprocess.run(command, check=True)
        return apt_install.main([package, "openmpi-bin"])


if __name__ == "__main__":
    raise SystemExit(main())
