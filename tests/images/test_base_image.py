from __future__ import annotations

import subprocess
import sys
import time

import pytest
from engine import docker, has_image

pytestmark = pytest.mark.docker

USES = "import ctypes, ensurepip, lzma, sqlite3, ssl, sys, venv; print(sys.prefix, *sys.version_info[:2])"


@pytest.fixture(params=["debootstrap", "slim"])
def base(request) -> str:
    """A stand-in base, where this machine made one."""
    name = f"muster-base:{request.param}"
    if not has_image(name):
        pytest.skip(f"no {name}: the default base can be pulled here")
    return name


def test_base_that_is_there_is_kept(root, base):
    """A second call makes nothing and is quick."""
    command = [sys.executable, root / "scripts/base-image", base.split(":")[1]]
    subprocess.run(command, check=True, capture_output=True, timeout=600)  # the recipe may be newer
    before = docker("image", "inspect", "--format", "{{.Id}}", base).stdout
    begin = time.monotonic()
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert time.monotonic() - begin < 5
    assert docker("image", "inspect", "--format", "{{.Id}}", base).stdout == before


def test_base_is_small(base):
    """Documents, translations and package lists are gone."""
    assert int(docker("image", "inspect", "--format", "{{.Size}}", base).stdout) < 150e6


def test_python_works(base):
    """The modules that need Debian's libraries load; the look-alike's Python is in /usr/local, as the official one."""
    prefix, *version = docker("run", "--rm", base, "python3", "-c", USES).stdout.split()
    assert version == ["3", "11"]
    assert prefix == ("/usr/local" if base.endswith("slim") else "/usr")


def test_look_alike_has_no_python_of_debian():
    """Else a shebang or a package could find the wrong one, and the default base's layout would not be tested."""
    if not has_image("muster-base:slim"):
        pytest.skip("no muster-base:slim: the default base can be pulled here")
    listed = docker(
        "run", "--rm", "muster-base:slim", "bash", "-c", "ls /usr/bin/python3* || true"
    ).stdout
    assert listed == ""


def test_base_names_public_sources_only(base):
    """The machine's own mirror is in no image."""
    sources = docker("run", "--rm", base, "cat", "/etc/apt/sources.list").stdout
    assert {line.split()[1] for line in sources.splitlines()} == {
        "http://deb.debian.org/debian",
        "http://deb.debian.org/debian-security",
    }
