"""What is pinned in two places is the same in both."""

from __future__ import annotations

import re


def test_nvml_is_the_images(root):
    """The fake driver is tested with the nvidia-ml-py that the images' harness has."""
    bake = (root / "docker-bake.hcl").read_text(encoding="utf-8")
    developers = (root / "requirements-dev.txt").read_text(encoding="utf-8")
    (image,) = re.findall(r'nvidia_ml_py *= "([^"]+)"', bake)
    (ours,) = re.findall(r"^nvidia-ml-py==(\S+)", developers, re.MULTILINE)
    assert ours == image
