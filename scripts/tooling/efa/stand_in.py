"""Makes the stand-in's three files: the tarball, its signature, and the key that made it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tooling.machine import ScriptError, act, ask

HERE = Path(__file__).parent
TOP = "aws-efa-installer"
DEBS = "DEBS/DEBIAN12/x86_64"
NEEDED = ("gcc", "dpkg-deb", "gpg")
# Packages and their main files as the real installer has them. The sizes in MB add up to the 608 MiB that a whole
# installation of version 1.25.1 was seen to take; no figure of a newer one is published.
PACKAGES = {
    "rdma-core/rdma-core": {"etc/modprobe.d/rdma.conf": 0},
    "rdma-core/ibverbs-providers": {"usr/lib/x86_64-linux-gnu/libefa.so.1": 20},
    "efa-config": {"etc/modprobe.d/efa.conf": 0},
    "efa-profile": {"etc/ld.so.conf.d/000_efa.conf": 0, "etc/profile.d/zippy_efa.sh": 0},
    "libfabric1-aws": {"opt/amazon/efa/lib/libfabric.so.1": 60},
    "libfabric-aws-bin": {"opt/amazon/efa/bin/fi_info": 0},
    "libfabric-aws-dev": {"opt/amazon/efa/lib/libfabric.a": 118},
    "openmpi40-aws": {
        "opt/amazon/openmpi/lib/libmpi.so.40": 360,
        "opt/amazon/openmpi/bin/mpirun": 0,
    },
    "libnccl-ofi": {
        "opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so": 40,
        "opt/amazon/ofi-nccl/lib/libnccl-net.so": 20,
        "opt/amazon/ofi-nccl/lib/libnccl-ofi-tuner.so": 20,
        "etc/ld.so.conf.d/100_ofinccl.conf": 0,
    },
}
TEXTS = {
    "000_efa.conf": "/opt/amazon/efa/lib\n",
    "100_ofinccl.conf": "/opt/amazon/ofi-nccl/lib\n",
    "fi_info": "#!/bin/sh\necho 'fi_info: a stand-in'\n",
    "mpirun": "#!/bin/sh\necho 'this Open MPI is a stand-in' >&2\nexit 1\n",
}
# Newer than Debian's packages of the same names, which come with its Open MPI: they are replaced.
VERSION = "58.amzn0"
# The same files each time: a build that has them already finds its layers again.
NO_TIME = {"SOURCE_DATE_EPOCH": "0"}
SOURCE = 'const char *muster_stand_in(void) { return "no EFA in here"; }\n'


@dataclass(frozen=True)
class StandIn:
    """The folder with the three files, and what proves them: SHA-256 and the key's fingerprint, in hex."""

    folder: Path
    sha256: str
    fingerprint: str


def make(folder: Path, version: str) -> StandIn:
    """Make the files, or take those that this recipe has made. Raises ScriptError. Effects: files in `folder`."""
    tarball = folder / f"{TOP}-{version}.tar.gz"
    proof, recipe = folder / "proof.txt", _recipe(version)
    if proof.is_file() and proof.read_text(encoding="utf-8").split()[0] == recipe:
        return StandIn(folder, *proof.read_text(encoding="utf-8").split()[1:])
    if missing := [tool for tool in NEEDED if not shutil.which(tool)]:
        raise ScriptError(f"a stand-in for EFA is made with {', '.join(missing)}: install that")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="muster-efa-") as scratch:
        _pack(Path(scratch), version, tarball)
        fingerprint = _sign(Path(scratch), tarball)
    sha256 = hashlib.sha256(tarball.read_bytes()).hexdigest()
    proof.write_text(f"{recipe} {sha256} {fingerprint}\n", encoding="utf-8")
    return StandIn(folder, sha256, fingerprint)


def _recipe(version: str) -> str:
    source = Path(__file__).read_bytes() + (HERE / "efa_installer.sh").read_bytes()
    return hashlib.sha256(source + version.encode()).hexdigest()[:16]


def _pack(scratch: Path, version: str, tarball: Path) -> None:
    """Write the tarball. Raises ScriptError. Effects: files in `scratch`, the tarball."""
    top = scratch / TOP
    (top / DEBS / "rdma-core").mkdir(parents=True)
    library = scratch / "stand-in.so"
    (scratch / "stand-in.c").write_text(SOURCE, encoding="utf-8")
    act("gcc", "-shared", "-fPIC", "-o", str(library), str(scratch / "stand-in.c"), timeout=60)
    for package, files in PACKAGES.items():
        tree = scratch / "tree" / package
        _fill(tree, package.rpartition("/")[2], files, library)
        deb = str(top / DEBS / f"{package}_{VERSION}_amd64.deb")
        command = ("dpkg-deb", "--build", "--root-owner-group", "-Zgzip", "-z1", str(tree), deb)
        act(*command, timeout=120, quiet=True, env=NO_TIME)
    script = (HERE / "efa_installer.sh").read_text(encoding="utf-8")
    (top / "efa_installer.sh").write_text(script.replace("VERSION", version), encoding="utf-8")
    (top / "efa_installer.sh").chmod(0o755)
    (top / "STAND-IN").write_text("Not Amazon's software.\n", encoding="utf-8")
    with tarfile.open(tarball, "w:gz", compresslevel=1) as archive:
        archive.add(top, TOP, filter=_without_time)


def _without_time(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = 0
    return member


def _fill(tree: Path, name: str, files: dict[str, int], library: Path) -> None:
    """Write one package's tree. Effects: files below `tree`."""
    (tree / "DEBIAN").mkdir(parents=True)
    fields = {"Package": name, "Version": VERSION, "Architecture": "amd64", "Maintainer": "none"}
    control = "".join(f"{key}: {value}\n" for key, value in fields.items())
    control += "Description: stands in for a package of EFA's installer\n"
    (tree / "DEBIAN/control").write_text(control, encoding="utf-8")
    for place, megabytes in files.items():
        path = tree / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if ".so" in path.name:
            shutil.copyfile(library, path)
        else:
            path.write_text(TEXTS.get(path.name, ""), encoding="utf-8")
            path.chmod(0o755 if path.parent.name == "bin" else 0o644)
        if megabytes:
            with path.open("ab") as file:
                file.truncate(
                    megabytes * 1_000_000
                )  # zeros behind the library: the loader doesn't mind


def _sign(scratch: Path, tarball: Path) -> str:
    """Sign with a key that nobody keeps, and return its fingerprint. Raises ScriptError. Effects: two files, gpg."""
    home = scratch / "gpg"
    home.mkdir(mode=0o700)
    gpg = ("gpg", "--homedir", str(home), "--batch", "--passphrase", "")
    try:
        act(
            *gpg,
            "--quick-gen-key",
            "muster stand-in",
            "ed25519",
            "sign",
            "never",
            timeout=60,
            quiet=True,
        )
        signature = f"{tarball}.sig"
        act(*gpg, "--output", signature, "--detach-sign", str(tarball), timeout=60, quiet=True)
        key = str(tarball.parent / f"{TOP}.key")
        act(*gpg, "--armor", "--output", key, "--export", timeout=60, quiet=True)
        listed = ask(*gpg, "--with-colons", "--list-keys") or ""
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)
    line = next(line for line in listed.splitlines() if line.startswith("fpr:"))
    return line.split(":")[9]
