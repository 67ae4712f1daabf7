"""The parts of the smoke test: on a GPU where there is one, and as a rehearsal everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from engine import DEV_IMAGE, docker, gpu_image, has_image

SMOKE = Path(__file__).parent / "smoke.py"
PARTS = {"versions", "digits", "two_hosts", "benchmark", "compiled", "statuses"}


def run(digits: Path, *words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """The parts on this machine, with the harness that is tested."""
    env = {**os.environ, "PATH": path or f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [sys.executable, SMOKE, "--data", digits, *words]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=280, check=False
    )


@pytest.mark.gpu
@pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no GPU here")
def test_on_the_gpu(digits, tmp_path):
    """All parts pass on this machine's GPU, in under five minutes."""
    done = run(digits, "--out", str(tmp_path / "smoke.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "smoke.json").read_text(encoding="utf-8"))
    assert {name for name, result in results.items() if result["passed"]} == PARTS


def test_rehearsal(digits, tmp_path):
    """Without a GPU the parts do the same over gloo: what fails on a GPU is then the GPU's doing.

    torch.compile needs a compiler, which not every machine has: its part is rehearsed in an image.
    """
    out = tmp_path / "smoke.json"
    parts = sorted(PARTS - {"compiled"})
    done = run(digits, "--cpu", "--out", str(out), "--only", *parts)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(out.read_text(encoding="utf-8"))
    assert sorted(results) == parts
    assert results["two_hosts"]["world"] == 2
    assert results["digits"]["accuracy"] > 0.95
    assert results["statuses"] == {
        "passed": True,
        "seconds": results["statuses"]["seconds"],
        "raise": 1,
        "exit": 7,
        "stop": 0,
    }
    assert set(results["benchmark"]) >= {"copy", "one", "two"}
    assert set(results["benchmark"]["two"]) == {"1048576", "4194304"}
    assert "5 of 5 parts passed, rehearsed without a GPU" in done.stdout


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a GPU here")
def test_no_gpu_is_no_success(tmp_path):
    """Who asks for the GPU and has none is told, with a status that is not 0."""
    done = run(tmp_path)
    assert done.returncode == 2
    assert "no GPU here" in done.stderr


def test_a_part_that_fails_fails_all(tmp_path):
    """A torch that can't be used is one line that says FAILED, and status 1."""
    (tmp_path / "python").write_text(
        "#!/bin/sh\necho 'no torch today' >&2\nexit 3\n", encoding="utf-8"
    )
    (tmp_path / "python").chmod(0o755)
    usual = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = run(tmp_path, "--cpu", "--only", "versions", path=f"{tmp_path}:{usual}")
    assert done.returncode == 1
    assert "FAILED versions" in done.stdout
    assert "no torch today" in done.stdout


@pytest.mark.docker
def test_rehearsal_in_an_image(root):
    """scripts/smoke runs the parts in a container; torch.compile makes its code there, with the image's own compiler."""
    if not has_image(DEV_IMAGE):
        pytest.fail(f"no {DEV_IMAGE}: run `make images-test`", pytrace=False)
    command = [root / "scripts/smoke", DEV_IMAGE, "--cpu", "--only", "versions", "compiled"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 parts passed" in done.stdout
    assert '"device": "cpu"' in done.stdout


@pytest.mark.docker
def test_rehearsal_in_a_gpu_image(root):
    """The same in the GPU image: all that does not need a GPU works there."""
    image = gpu_image("ddp-gpu")
    parts = ["versions", "digits", "two_hosts", "benchmark", "statuses"]
    command = [root / "scripts/smoke", image, "--cpu", "--only", *parts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert docker("ps", "-q", "--filter", f"ancestor={image}").stdout == ""
