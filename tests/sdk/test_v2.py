"""SageMaker's own SDK, unmodified, against our image, without AWS."""

from __future__ import annotations

import re
import subprocess
import tarfile
from pathlib import Path

import pytest
import readme
from engine import docker

pytestmark = pytest.mark.docker


@pytest.fixture
def scratch(tmp_path):
    """A folder for the SDK's temporary files; its containers are removed after the test."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    yield folder
    # Compose leaves them behind, stopped; each project is named after its folder.
    for project in folder.iterdir():
        label = f"label=com.docker.compose.project={project.name}"
        containers = docker("ps", "-aq", "--filter", label).stdout.split()
        if containers:
            docker("rm", "-f", "-v", *containers)


def test_estimator_trains_on_two_local_instances(sdk_v2, no_aws, tmp_path, scratch, digits, root):
    """The README's Estimator, with image_uri, entry_point, two instances and local mode, trains
    the digits above 0.95 and gives a model archive."""
    (snippet,) = readme.blocks("python")
    snippet = snippet.replace("file:///tmp/muster-model", f"file://{tmp_path}/output")
    snippet = snippet.replace("file://build/digits", f"file://{digits}")
    (tmp_path / "snippet.py").write_text(snippet, encoding="utf-8")
    done = subprocess.run(
        [sdk_v2, tmp_path / "snippet.py"],
        cwd=root,
        env={**no_aws, "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    accuracies = re.findall(r"test_accuracy=([0-9.]+)", said)
    assert len(accuracies) == 1, said
    assert float(accuracies[0]) > 0.95
    with tarfile.open(tmp_path / "output" / "model.tar.gz") as model:
        assert "model.pt" in [Path(name).name for name in model.getnames()]
