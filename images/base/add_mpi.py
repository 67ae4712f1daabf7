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
CONF = Path("/etc/openmpi/openmpi-mca-params.conf")
# For mpirun by hand: it asks for an agent even for ranks of one host.
SETTINGS = "\nplm_rsh_agent = /usr/local/bin/muster-rsh\n"


def main() -> int:
    """Install mpirun and Open MPI's libraries. Raises CalledProcessError. Effects: Debian packages."""
    with tempfile.TemporaryDirectory() as folder:
        control = Path(folder, "rsh/DEBIAN/control")
        control.parent.mkdir(parents=True)
        control.write_text(CONTROL, encoding="utf-8")
        package = f"{folder}/muster-rsh.deb"
        command = ["dpkg-deb", "--build", "--root-owner-group", f"{folder}/rsh", package]
        subprocess.run(command, check=True)
        status = apt_install.main([package, "openmpi-bin"])
    with CONF.open("a", encoding="utf-8") as file:
        file.write(SETTINGS)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
