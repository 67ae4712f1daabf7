"""SageMaker's own SDK, unmodified, against our image, without AWS."""

from __future__ import annotations

import re
import subprocess
import tarfile
from pathlib import Path

import pytest
import readme

pytestmark = pytest.mark.docker

SCRIPT = Path(__file__).parent / "scripts" / "estimator_v2.py"


def test_estimator_trains_on_two_local_instances(sdk_v2, no_aws, tmp_path, digits, root):
    """The README's Estimator, with image_uri, entry_point, two instances and local mode, trains
    the digits above 0.95 and gives a model archive."""
    (snippet,) = readme.blocks("python")
    snippet = snippet.replace("file:///tmp/muster-model", f"file://{tmp_path}/output")
    snippet = snippet.replace("file://build/digits", f"file://{digits}")
    (tmp_path / "snippet.py").write_text(snippet, encoding="utf-8")
    done = subprocess.run(
        [sdk_v2, SCRIPT, tmp_path / "snippet.py", tmp_path / "root"],
        cwd=root,
        env=no_aws,
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
