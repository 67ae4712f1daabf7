"""Runs EFA's installer in the image, and looks whether NCCL would find the plugin: without it, it takes TCP in silence.

Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-installer-containers.html.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import apt_install

UNPACKED = Path("/run/efa")
AMAZON = Path("/opt/amazon")
CONF = Path("/etc/ld.so.conf.d/muster-efa.conf")
RECORD = Path("/opt/muster/efa.json")
# A container has no kernel of its own, no limits to set, and no device while it is built.
FLAGS = ("-y", "--skip-kmod", "--skip-limit-conf", "--no-verify")
# In versions that know them. Without the first, 1.48 and newer leave the plugin out where a file of NVIDIA's images lies.
# The second leaves Open MPI 5 out.
NEWER_FLAGS = {"--disable-ngc": "--disable-ngc", "--mpi": "--mpi=openmpi4"}
LOGS = ("/var/log/efa_installer", "/opt/amazon/efa/share/doc")


class BuildError(Exception):
    """EFA is not in the image as it has to be; the message says what is missing."""


def install(folder: Path) -> None:
    """Run the installer. Raises CalledProcessError. Effects: Debian packages, from the installer and from apt."""
    script = (folder / "efa_installer.sh").read_text(encoding="utf-8")
    newer = [flag for word, flag in NEWER_FLAGS.items() if word in script]
    env = apt_install.environment()
    # It installs packages of the base's system too, from lists that a slim base doesn't have.
    subprocess.run(["apt-get", "-q", "update"], env=env, check=True)
    subprocess.run(["./efa_installer.sh", *FLAGS, *newer], cwd=folder, env=env, check=True)
    apt_install.clean()
    for leftover in LOGS:
        shutil.rmtree(leftover, ignore_errors=True)


def plugin() -> Path:
    """Return the library that makes NCCL use EFA; its place has changed between versions. Raises BuildError."""
    found = [
        path
        for name in ("libnccl-net-ofi.so", "libnccl-net.so")
        for path in sorted((AMAZON / "ofi-nccl").glob(f"lib*/**/{name}"))
    ]
    if not found:
        system = Path("/etc/os-release").read_text(encoding="utf-8")
        name = re.search(r'^PRETTY_NAME="(.+)"', system, re.MULTILINE)
        where = name[1] if name else "this base"
        raise BuildError(
            f"EFA's installer has brought no plugin for NCCL to {where}: NCCL would take TCP. "
            "Take another base (MUSTER_BASE_IMAGE), another version of EFA, or MUSTER_EFA=no"
        )
    return found[0]


def check(library: Path) -> None:
    """See that the loader finds the plugin, and all that it needs. Raises BuildError. Effects: runs ldconfig, ldd."""
    folders = sorted({str(library.parent), *map(str, (AMAZON / "efa").glob("lib*/"))})
    CONF.write_text("".join(f"{folder}\n" for folder in folders), encoding="utf-8")
    subprocess.run(["ldconfig"], check=True)
    needs = subprocess.run(
        ["ldd", str(library)], capture_output=True, text=True, check=False
    ).stdout
    if missing := re.findall(r"(\S+) => not found", needs):
        raise BuildError(f"{library} needs {', '.join(missing)}, which the image doesn't have")
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    if f"=> {library}" not in known:
        raise BuildError(f"the loader doesn't find {library}")


def packages() -> list[str]:
    """Return what the installer says that it has installed. Raises BuildError. Effects: reads its file."""
    try:
        lines = (AMAZON / "efa_installed_packages").read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BuildError(f"EFA's installer has left no record of what it did: {error}") from error
    return sorted(word for line in lines if not line.startswith("#") for word in line.split())


def main() -> int:
    """Install EFA; nothing to do where none was handed over. Effects: as above, and a record for the manifest."""
    facts = UNPACKED / "efa.json"
    if not facts.is_file():
        return 0
    install(UNPACKED / "aws-efa-installer")
    try:
        library = plugin()
        check(library)
        record = {**json.loads(facts.read_text()), "plugin": str(library), "packages": packages()}
    except BuildError as error:
        print(f"muster: {error}", file=sys.stderr)
        return 1
    RECORD.write_text(json.dumps(record) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
