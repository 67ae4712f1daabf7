from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import variants
from engine import IMAGE, has_image, missing_engine
from job_process import Run, start_job

ROOT = Path(__file__).resolve().parent.parent


def pytest_runtest_setup(item):
    """Tests that need an engine say so when there is none; a missing image is a failure."""
    if item.get_closest_marker("docker") is None:
        return
    if reason := missing_engine():
        pytest.skip(f"{reason}: run scripts/engine")
    if not has_image(IMAGE):
        pytest.fail(f"the image {IMAGE} is missing: run `make images`", pytrace=False)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def smddp_image() -> str:
    """The image smddp with a stand-in of AWS's library."""
    return variants.build("smddp")


@pytest.fixture(scope="session")
def open_mpi_5() -> str:
    """The image smddp with Open MPI 5 in front of Debian's 4."""
    return variants.build("openmpi5")


@pytest.fixture(scope="session")
def digits(tmp_path_factory) -> Path:
    """A folder with scikit-learn's handwritten digits, as the channel `training` has them."""
    folder = tmp_path_factory.mktemp("digits")
    script = ROOT / "examples" / "make_digits.py"
    subprocess.run([sys.executable, script, folder], check=True)
    return folder


@pytest.fixture
def code(tmp_path_factory):
    """A function that puts a script into a fresh code folder and returns the folder."""

    def write(script: str, name: str = "train.py"):
        folder = tmp_path_factory.mktemp("code")
        (folder / name).write_text(textwrap.dedent(script), encoding="utf-8")
        return folder

    return write


@pytest.fixture
def train(tmp_path):
    """A function that starts `muster train` on a script's text, and ends what is left of it."""
    runs: list[Run] = []

    def start(script: str, *arguments: str, name: str = "train.py", **settings: str) -> Run:
        runs.append(start_job(tmp_path, script, arguments, name, settings))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
        run.process.wait()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """What has to run one after the other begins first: at the end everybody would wait for it."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
