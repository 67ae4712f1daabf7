"""EFA's installer is run only when checksum and signature are right, and its plugin is found."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

VERSION = "1.50.0"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A stand-in: the tarball, its signature and the key, and what proves them."""
    stand_in = importlib.import_module("tooling.efa.stand_in")
    if missing := [tool for tool in stand_in.NEEDED if not shutil.which(tool)]:
        pytest.skip(f"a stand-in for EFA's installer is made with {', '.join(missing)}")
    return stand_in.make(tmp_path_factory.mktemp("efa"), VERSION)


@pytest.fixture
def step(root, monkeypatch):
    """A function that imports a step of the images' build."""
    monkeypatch.setattr(sys, "path", [str(root / "images/base"), *sys.path])
    return importlib.import_module


@pytest.fixture
def fetch(step, made, tmp_path):
    """A function that runs the step as the build does, with what is given changed. Returns status and the folder."""

    def run(**changes: str) -> tuple[int, Path]:
        into = tmp_path / "installer"
        options = {
            "efa": "stand-in",
            "version": VERSION,
            "sha256": made.sha256,
            "fingerprint": made.fingerprint,
            "url": "file:///nowhere",
            "folder": str(made.folder),
            "into": str(into),
        } | changes
        words = [f"--{name}={value}" for name, value in options.items()]
        return step("fetch_efa").main(words), into

    return run


def test_a_proven_installer_is_unpacked(fetch):
    """Checksum, signature and key are those that are expected."""
    status, into = fetch()
    assert status == 0
    assert (into / "aws-efa-installer/efa_installer.sh").is_file()
    assert '"stand_in": true' in (into / "efa.json").read_text(encoding="utf-8")


def test_it_comes_from_an_address_as_well(fetch, made, tmp_path):
    """What is not in the folder is fetched: all three files."""
    status, into = fetch(folder=str(tmp_path / "empty"), url=made.folder.as_uri())
    assert status == 0
    assert (into / "aws-efa-installer/STAND-IN").is_file()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sha256": "0" * 64}, "has SHA-256"),
        ({"sha256": ""}, "no SHA-256 is known for this version of EFA: set MUSTER_EFA_SHA256"),
        ({"fingerprint": "4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC"}, "is signed by"),
        ({"efa": VERSION}, "is a stand-in, but the image would say 1.50.0"),
        ({"version": "1.99.0"}, "can't be fetched"),
    ],
)
def test_anything_else_ends_the_build(fetch, capsys, changes, said):
    """One line says what is wrong, and nothing is unpacked."""
    status, into = fetch(**changes)
    assert status == 1
    assert said in capsys.readouterr().err
    assert list(into.iterdir()) == []


def test_a_signature_of_another_file_ends_the_build(fetch, made, tmp_path, capsys):
    """The checksum alone would let a wrong entry in docker-bake.hcl pass."""
    folder = tmp_path / "folder"
    shutil.copytree(made.folder, folder)
    signature = folder / f"aws-efa-installer-{VERSION}.tar.gz.sig"
    signature.write_bytes(signature.read_bytes()[:-8] + b"\0" * 8)
    status, into = fetch(folder=str(folder))
    assert status == 1
    assert "the signature of" in capsys.readouterr().err
    assert list(into.iterdir()) == []


def test_no_efa_fetches_nothing(fetch):
    """An empty folder is what the image's build then gets."""
    status, into = fetch(efa="none", url="http://127.0.0.1:9", folder="/nowhere")
    assert status == 0
    assert list(into.iterdir()) == []


def plugin_of(install: ModuleType, monkeypatch, folder: Path, *files: str) -> str:
    """What the step takes for the plugin, where the installer has left these files."""
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    monkeypatch.setattr(install, "AMAZON", folder)
    return str(install.plugin().relative_to(folder))


@pytest.mark.parametrize(
    "file",
    [
        "ofi-nccl/lib/libnccl-net-ofi.so",
        "ofi-nccl/lib64/libnccl-net-ofi.so",
        "ofi-nccl/lib/x86_64-linux-gnu/libnccl-net.so",
    ],
)
def test_the_plugin_is_found_where_versions_put_it(step, monkeypatch, tmp_path, file):
    """1.44 has changed its folder and its name, and Amazon Linux has another one."""
    assert plugin_of(step("install_efa"), monkeypatch, tmp_path, file) == file


def test_no_plugin_ends_the_build(step, monkeypatch, tmp_path):
    """Without it NCCL takes TCP and says nothing: the image would be slow, and nobody would know why."""
    install = step("install_efa")
    with pytest.raises(install.BuildError, match=r"no plugin for NCCL .* MUSTER_EFA=no"):
        plugin_of(install, monkeypatch, tmp_path, "efa/lib/libfabric.so.1")
