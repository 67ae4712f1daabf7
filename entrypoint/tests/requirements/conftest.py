"""A real venv, real pip, and an index on the loopback with packages made here."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from wheels import Index, make_sdist, make_wheel

from muster.model import Code
from muster.requirements.install import install
from muster.requirements.programs import Programs
from muster.settings import read_settings

GXX = "import sys\nsys.exit(\"error: command 'g++' failed: No such file or directory\")\n"


@pytest.fixture(scope="session")
def packages(tmp_path_factory) -> Path:
    """Return a folder with every package of these tests."""
    folder = tmp_path_factory.mktemp("packages")
    for name, version in [
        *[("torch", "2.13.0+cpu"), ("torch", "2.0.0"), ("numpy", "2.4.6"), ("numpy", "2.4.1")],
        *[("numpy", "1.26.4"), ("small", "1.0"), ("small", "2.0"), ("jinja2", "2.0")],
    ]:
        make_wheel(folder, name, version)
    make_wheel(folder, "torchvision", "0.28.0", requires=["torch>=2.13", "small"])
    make_wheel(folder, "needs-old", "1.0", requires=["torch==2.0.0"])
    make_wheel(folder, "needs-absent", "1.0", requires=["absent>=2"])
    make_wheel(folder, "newpy", "1.0", python=">=3.99")
    broken = {"torch/__init__.py": "raise ImportError('undefined symbol: ncclX')\n"}
    make_wheel(folder, "breaks", "1.0", files=broken)
    make_sdist(folder, "compiled", "1.0", GXX)
    make_sdist(folder, "unbuilt", "1.0", "raise RuntimeError('no CUDA here')\n")
    return folder


@pytest.fixture(scope="session")
def index(packages) -> Iterator[Index]:
    """Yield an index that wants a login."""
    with Index(packages, "me:hunter2-secret") as index:
        yield index


@pytest.fixture(scope="session")
def original(tmp_path_factory, packages) -> Path:
    """Return a venv with torch and numpy, to be copied."""
    venv = tmp_path_factory.mktemp("original") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    words = [venv / "bin/python", "-m", "pip", "install", "-qq", "--no-index"]
    wheels = ["torch-2.13.0+cpu", "numpy-2.4.6"]
    files = [str(next(packages.glob(f"{name}-*.whl"))) for name in wheels]
    subprocess.run([*words, *files], check=True)
    return venv


@dataclass
class Host:
    """A host's Python and code."""

    venv: Path
    code: Path
    env: dict[str, str]
    constraints: Path
    record: Path

    @property
    def python(self) -> str:
        return str(self.venv / "bin/python")

    def ask(self, text: str, name: str = "requirements.txt") -> None:
        """Write the requirements file."""
        (self.code / name).write_text(text, encoding="utf-8")

    def install(self, programs: Programs | None = None, **variables: str) -> tuple[str, ...]:
        """Run the stage, and return its notes."""
        env = self.env | variables
        settings = read_settings({"MUSTER_CONSTRAINTS": str(self.constraints), **env})
        code = Code(str(self.code), "train.sh", ("/bin/sh", "train.sh"))
        return install(code, settings, env, str(self.record), programs or Programs()).notes

    def version(self, name: str) -> str:
        """Return a package's version in the venv; empty for none."""
        folder = next(self.venv.glob("lib/python3*/site-packages"))
        found = [path.name.split("-")[1] for path in folder.glob(f"{name}-*.dist-info")]
        return found[0].removesuffix(".dist") if found else ""


@pytest.fixture
def host(tmp_path, original, index) -> Host:
    """Return a host with a venv of its own, whose image has torch 2.13.0+cpu and numpy 2.4.6."""
    venv = tmp_path / "venv"
    # pip runs as `python -m pip`: scripts that name the other venv do no harm.
    shutil.copytree(original, venv, symlinks=True)
    (tmp_path / "code").mkdir()
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("boto3==1.43.0\nnumpy==2.4.6\ntorch==2.13.0+cpu\n", encoding="utf-8")
    env = {
        "PATH": f"{venv / 'bin'}:{os.defpath}",
        "HOME": str(tmp_path),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_CACHE_DIR": "1",
        "PIP_INDEX_URL": index.url,
    }
    return Host(venv, tmp_path / "code", env, constraints, tmp_path / "record")


@pytest.fixture
def fails(host) -> Callable[..., tuple[str, str]]:
    """Return a function that runs the stage, and returns what is wrong and what to do."""
    from muster.errors import RequirementsError  # noqa: PLC0415  (the fixture's alone)

    def run(text: str, **variables: str) -> tuple[str, str]:
        host.ask(text)
        with pytest.raises(RequirementsError) as caught:
            host.install(**variables)
        return caught.value.what, caught.value.remedy

    return run
