"""The versions of what a job's ranks use, read from files: no program is asked. Effects: looks at files.

Packages are read from the names of their dist-info folders in the script's own Python, the driver from /proc, the rest from
what the image's build has written down.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence

from muster.check.finding import Here
from muster.check.reading import names, text

_DIST_INFO = re.compile(
    r"(?P<name>[A-Za-z0-9_.]+)-(?P<version>[^-]+)(?:-py[\d.]+)?\.(?:dist-info|egg-info)"
)
_WANTED = {
    "torch": "torch",
    "horovod": "horovod",
    "mpi4py": "mpi4py",
    "smdistributed_dataparallel": "smddp",
}
_NCCL = re.compile(r"nvidia_nccl(?:_cu\d+)?")
_CUDA = re.compile(r"nvidia_cuda_runtime(?:_cu\d+)?")
_DRIVER = re.compile(r"Kernel Module(?: for \S+)?\s+(?P<version>\d+(?:\.\d+)+)")
_EFA = {
    "libfabric": re.compile(r"libfabric1?(?:-aws)?[-_](?P<version>\d[A-Za-z0-9.]*)"),
    "plugin": re.compile(r"(?:libnccl-ofi|aws-ofi-nccl)[-_](?P<version>\d[A-Za-z0-9.]*)"),
}
"""Files of packages of EFA's installer: libfabric1-aws_2.4.0amzn3.0_amd64.deb, libnccl-ofi_1.19.0-1_amd64.deb."""
_DPKG = {"libfabric1-aws": "libfabric", "libnccl-ofi": "plugin", "aws-ofi-nccl": "plugin"}
_INSTALLED = re.compile(
    r"^Package: (?P<name>\S+)\n(?:\S.*\n| .*\n)*?Version: (?P<version>[^-\s]+)", re.MULTILINE
)
_DPKG_STATUS = "/var/lib/dpkg/status"
_MPI = re.compile(r"libmpi\.so\.(?P<version>\d+(?:\.\d+)+)")
_NCCL_FILE = "nvidia/nccl/lib/libnccl.so.2"
_AMAZON = "/opt/amazon"


def site_folders(python: str) -> tuple[str, ...]:
    """The folders of packages of a Python, without starting it.

    Args:
        python: its path; a venv's is a link, and its packages are beside the link.
    """
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(python)))
    found: list[str] = []
    for library in ("lib", "lib64", "local/lib"):
        folder = os.path.join(prefix, library)
        versions = sorted(name for name in names(folder) if re.fullmatch(r"python3(\.\d+)?", name))
        for version in versions:
            for last in ("site-packages", "dist-packages"):
                path = os.path.join(folder, version, last)
                if os.path.isdir(path):
                    found.append(os.path.realpath(path))
    return tuple(dict.fromkeys(found))


def installed(names: Sequence[str]) -> dict[str, str]:
    """Versions by our own name, of a folder's names. Pure."""
    found: dict[str, str] = {}
    for name in sorted(names):
        info = _DIST_INFO.fullmatch(name)
        package = info["name"].lower().replace(".", "_") if info else ""
        ours = _WANTED.get(package)
        if _NCCL.fullmatch(package):
            ours = "NCCL"
        if _CUDA.fullmatch(package):
            ours = "CUDA"
        if info and ours:
            found.setdefault(ours, info["version"])
    return found


def of_image(manifest: Mapping[str, object]) -> dict[str, str]:
    """What the image's manifest says. Pure."""
    found: dict[str, str] = {}
    cuda, efa, held = (manifest.get(key) for key in ("cuda", "efa", "versions"))
    if isinstance(held, dict):
        found |= {ours: str(held[name]) for name, ours in _WANTED.items() if name in held}
    if isinstance(cuda, dict):
        found |= {
            ours: str(cuda[key])
            for key, ours in (("cuda", "CUDA"), ("nccl", "NCCL"))
            if key in cuda
        }
    if isinstance(efa, dict):
        found |= of_efa(" ".join(map(str, efa.get("packages", ()))))
    return found


def of_efa(text: str) -> dict[str, str]:
    """What EFA's installer says that it has installed. Pure."""
    found = {ours: pattern.search(text) for ours, pattern in _EFA.items()}
    return {ours: match["version"] for ours, match in found.items() if match}


def of_dpkg(text: str) -> dict[str, str]:
    """The same by Debian's own record, /var/lib/dpkg/status. Pure."""
    return {
        _DPKG[found["name"]]: found["version"]
        for found in _INSTALLED.finditer(text)
        if found["name"] in _DPKG
    }


def versions(
    here: Here, prefix: str = sys.prefix, amazon: str = _AMAZON, dpkg: str = _DPKG_STATUS
) -> dict[str, str]:
    """What this host has, by name; what can't be found out is left out.

    Args:
        here: this host.
        prefix: of the harness's own Python, where an image has its manifest.
        amazon: where EFA's installer puts things.
        dpkg: Debian's record of packages; a long file, read where there is EFA.
    """
    folders = script_folders(here)
    found = of_image(_manifest(prefix))
    if os.path.isdir(amazon):
        found |= of_efa(text(f"{amazon}/efa_installed_packages")) | of_dpkg(text(dpkg))
    # What is there now counts more than what was there at the image's build.
    found |= installed([name for folder in reversed(folders) for name in names(folder)])
    if driver := _DRIVER.search(text(f"{here.proc}/driver/nvidia/version")):
        found["driver"] = driver["version"]
    if mpi := _mpi(here.env.get("PATH")):
        found["MPI"] = mpi
    return found


def script_folders(here: Here) -> tuple[str, ...]:
    """Where the script's Python has its packages."""
    path = here.env.get("PATH")
    python = here.settings.python or shutil.which("python3", path=path)
    return site_folders(python) if python else ()


def nccl_files(here: Here) -> tuple[str, ...]:
    """The NCCL of the script's packages."""
    files = [os.path.join(folder, _NCCL_FILE) for folder in script_folders(here)]
    return tuple(dict.fromkeys(os.path.realpath(file) for file in files if os.path.exists(file)))


def _mpi(path: str | None) -> str:
    """The version in the name of the library beside mpirun; empty where that doesn't tell."""
    mpirun = shutil.which("mpirun", path=path)
    if mpirun is None:
        return ""
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(mpirun)))
    for folder in ("lib", "lib64", "lib/x86_64-linux-gnu"):
        for name in sorted(names(os.path.join(prefix, folder))):
            if found := _MPI.fullmatch(name):
                return f"libmpi {found['version']}"
    return ""


def _manifest(prefix: str) -> dict[str, object]:
    try:
        manifest = json.loads(text(os.path.join(prefix, "manifest.json")) or "{}")
    except ValueError:
        return {}
    return manifest if isinstance(manifest, dict) else {}
