"""scripts/base-image: stand-ins for the images' base where no registry answers, made from Debian's own packages."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tooling.machine import ScriptError, act, ask, debian_mirror, os_release, say

NAME = "muster-base"
LABEL = "muster.base.recipe"


@dataclass(frozen=True)
class Kind:
    """A Debian release, and what the base holds beside its essentials."""

    suite: str
    packages: tuple[str, ...]


KINDS = {
    "debootstrap": Kind("bookworm", ("ca-certificates", "python3", "python3-venv")),
    # What python:3.11-slim-bookworm holds beside Debian's essentials, so that a CPython in /usr/local finds its libraries.
    "slim": Kind(
        "bookworm",
        (
            *("ca-certificates", "netbase", "tzdata", "libssl3", "libffi8", "libbz2-1.0"),
            *("liblzma5", "libsqlite3-0", "zlib1g", "libreadline8", "libncursesw6", "libexpat1"),
            "libuuid1",
        ),
    ),
    # Another release and another Python (3.13), for tests of bases that are not the default.
    "trixie": Kind("trixie", ("ca-certificates", "gpgv", "python3", "python3-venv")),
}
# The machine's own mirror must not show in an image; these are Debian's public names.
SOURCES = (
    "deb http://deb.debian.org/debian {suite} main\n"
    "deb http://deb.debian.org/debian {suite}-updates main\n"
    "deb http://deb.debian.org/debian-security {suite}-security main\n"
)
# As Debian's own slim images do: packages installed later bring no documents either, and apt keeps no archive.
DPKG_CONF = "".join(
    f"path-exclude /usr/share/{part}/*\n"
    for part in ("doc", "man", "info", "locale", "lintian", "linda", "groff")
)
DPKG_CONF += "path-include /usr/share/doc/*/copyright\n"
APT_CONF = 'APT::Keep-Downloaded-Packages "false";\nAPT::Install-Recommends "false";\n'
PRUNED = (
    *("var/cache/apt", "var/cache/debconf", "var/cache/ldconfig", "var/lib/apt/lists", "var/log"),
    *(f"usr/share/{part}" for part in ("man", "info", "locale", "lintian", "linda", "groff")),
)


def recipe(kind: str) -> str:
    """Return a text that changes with what would be built. Effects: reads this file."""
    source = Path(__file__).read_bytes() + (sys.version.encode() if kind == "slim" else b"")
    return hashlib.sha256(source).hexdigest()[:16]


def exists(kind: str) -> bool:
    """Tell whether the image is there, made by this recipe. Effects: asks the engine."""
    template = f'{{{{index .Config.Labels "{LABEL}"}}}}'
    return ask("docker", "image", "inspect", "--format", template, f"{NAME}:{kind}") == recipe(kind)


def ensure_debootstrap() -> None:
    """Make sure that debootstrap is there. Raises ScriptError where it can't be installed. Effects: apt."""
    if os.geteuid() != 0:
        raise ScriptError(
            "a base is made by root alone (debootstrap uses chroot): run as root, or set MUSTER_BASE_IMAGE"
        )
    if shutil.which("debootstrap"):
        return
    if os_release().get("ID") != "debian":
        raise ScriptError(
            "debootstrap is missing: install it, or set MUSTER_BASE_IMAGE to a base that you have"
        )
    say("base-image: installing debootstrap")
    for step in (("update",), ("install", "-y", "--no-install-recommends", "debootstrap")):
        act("apt-get", "-o", "DPkg::Lock::Timeout=120", "-qq", *step, timeout=300, quiet=True)


def prune(root: Path, suite: str) -> None:
    """Remove what no job reads: documents, translations, apt's and dpkg's leftovers. Effects: files below `root`."""
    for part in PRUNED:
        shutil.rmtree(root / part, ignore_errors=True)
        (root / part).mkdir(parents=True, exist_ok=True)
    (root / "var/cache/apt/archives/partial").mkdir(parents=True)  # apt asks for it
    (root / "var/lib/apt/lists/partial").mkdir(parents=True)
    for path in (root / "usr/share/doc").rglob("*"):
        if path.name != "copyright" and not path.is_dir():
            path.unlink()
    (root / "etc/apt/sources.list").write_text(SOURCES.format(suite=suite), encoding="utf-8")
    (root / "etc/dpkg/dpkg.cfg.d/docker").write_text(DPKG_CONF, encoding="utf-8")
    (root / "etc/apt/apt.conf.d/docker").write_text(APT_CONF, encoding="utf-8")
    # Debian's boot writes these two; in an image they would tell two hosts that they are one.
    (root / "etc/machine-id").write_text("", encoding="utf-8")
    for leftover in ("etc/hostname", "etc/resolv.conf"):
        (root / leftover).unlink(missing_ok=True)


def add_cpython(root: Path) -> None:
    """Put the running CPython 3.11 under /usr/local, as the official image has it.

    Raises ScriptError where the running interpreter is none that can be moved. Effects: files below `root`.
    """
    prefix, local = Path(sys.base_prefix), root / "usr/local"
    if sys.version_info[:2] != (3, 11) or prefix == Path("/usr"):
        raise ScriptError(
            "the slim look-alike copies the CPython that runs this script: use a 3.11 outside of /usr (pyenv)"
        )
    shutil.copy2(prefix / "bin/python3.11", local / "bin/python3.11")
    for library in (prefix / "lib").glob("libpython3*"):
        shutil.copy2(library, local / "lib" / library.name, follow_symlinks=False)
    skip = shutil.ignore_patterns(
        "site-packages", "test", "tests", "idle_test", "__pycache__", "*.a"
    )
    shutil.copytree(prefix / "lib/python3.11", local / "lib/python3.11", ignore=skip, symlinks=True)
    (local / "lib/python3.11/site-packages").mkdir()
    for link in ("python3", "python"):
        (local / "bin" / link).symlink_to("python3.11")
    if shutil.which("strip"):  # pyenv keeps debug symbols; the official image does not
        for binary in (
            *(local / "lib").glob("libpython3*.so.*"),
            *(local / "lib").rglob("lib-dynload/*.so"),
        ):
            act("strip", "--strip-unneeded", str(binary), timeout=60, quiet=True)
    act("chroot", str(root), "/sbin/ldconfig", timeout=60, quiet=True)
    act(
        "chroot",
        str(root),
        "/usr/local/bin/python3",
        "-m",
        "ensurepip",
        "--default-pip",
        timeout=120,
        quiet=True,
    )


def load(root: Path, kind: str) -> None:
    """Import the tree as an image. Raises ScriptError. Effects: an image in the engine."""
    changes = [f"LABEL {LABEL}={recipe(kind)}", 'CMD ["bash"]']
    if kind == "slim":
        changes.append("ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin")
    options = [part for change in changes for part in ("--change", change)]
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        act(
            "tar",
            "-C",
            str(root),
            "--numeric-owner",
            "--sort=name",
            "-cf",
            archive.name,
            ".",
            timeout=120,
        )
        act("docker", "import", *options, archive.name, f"{NAME}:{kind}", timeout=300, quiet=True)


def make(kind: str) -> str:
    """Make the base where it is missing, and return its name. Raises ScriptError. Effects: apt, an image in the engine."""
    name = f"{NAME}:{kind}"
    if exists(kind):
        return name
    ensure_debootstrap()
    suite = KINDS[kind].suite
    codename = os_release().get("VERSION_CODENAME", suite)
    mirror = (
        debian_mirror(codename)
        if os_release().get("ID") == "debian"
        else "http://deb.debian.org/debian"
    )
    say(f"base-image: making {name} from Debian's packages, about a minute")
    with tempfile.TemporaryDirectory(prefix="muster-base-") as scratch:
        root = Path(scratch) / "root"
        include = f"--include={','.join(KINDS[kind].packages)}"
        act(
            "debootstrap",
            "--variant=minbase",
            include,
            suite,
            str(root),
            mirror,
            timeout=580,
            quiet=True,
        )
        prune(root, suite)
        if kind == "slim":
            add_cpython(root)
        root.chmod(0o755)
        load(root, kind)
    return name


def main(argv: Sequence[str] | None = None) -> int:
    """Make one stand-in base; 0 when it is there. Effects: as make says."""
    parser = argparse.ArgumentParser(prog="scripts/base-image", description=__doc__)
    parser.add_argument(
        "kind",
        choices=KINDS,
        help="debootstrap: Debian 12 with its own Python; slim: like python:3.11-slim; trixie: Debian 13",
    )
    kind = parser.parse_args(argv).kind
    try:
        name = make(kind)
    except (ScriptError, OSError, subprocess.SubprocessError) as error:
        say(f"base-image: {error}")
        return 1
    say(f"base-image: {name} is there")
    return 0
