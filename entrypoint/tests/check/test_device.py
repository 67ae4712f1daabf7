from __future__ import annotations

import pytest

from muster.check import refuse_missing_gpu
from muster.errors import CheckError
from muster.settings import read_settings

GPU_IMAGE = {"MUSTER_IMAGE_DEVICE": "gpu"}


@pytest.fixture
def refuse(make_job):
    """The check on a host with so many visible GPUs."""

    def run(env, gpus=0, control_device="/nowhere"):
        refuse_missing_gpu(make_job(gpus=gpus), read_settings(env), env, str(control_device))

    return run


def test_gpu_image_without_a_gpu_ends_with_75(refuse):
    """Line 1 says what is wrong and where, and the remedy names all three ways on."""
    with pytest.raises(CheckError) as caught:
        refuse(GPU_IMAGE)
    assert caught.value.status == 75
    assert caught.value.what == (
        "this image is made for GPUs, and algo-1 shows none: the container has no /nowhere"
    )
    assert "--gpus all" in caught.value.remedy
    assert "tag cpu" in caught.value.remedy
    assert "MUSTER_ALLOW_CPU=1" in caught.value.remedy


@pytest.mark.parametrize(
    ("env", "gpus"),
    [
        ({}, 0),
        ({"MUSTER_IMAGE_DEVICE": "cpu"}, 0),
        (GPU_IMAGE, 1),
        ({**GPU_IMAGE, "MUSTER_ALLOW_CPU": "1"}, 0),
        ({"MUSTER_IMAGE_DEVICE": "cpu"}, 8),
    ],
)
def test_everything_else_goes_on(refuse, env, gpus):
    """CPU images compare nothing, whatever the host has; a GPU image may be told to go on."""
    refuse(env, gpus)


def test_hidden_gpus_are_told_from_missing_ones(refuse, tmp_path):
    """The driver is there, and CUDA_VISIBLE_DEVICES leaves nothing of it."""
    device = tmp_path / "nvidiactl"
    device.touch()
    with pytest.raises(CheckError, match="CUDA_VISIBLE_DEVICES='' hides them"):
        refuse({**GPU_IMAGE, "CUDA_VISIBLE_DEVICES": ""}, control_device=device)
    with pytest.raises(CheckError, match="the driver does not answer"):
        refuse(GPU_IMAGE, control_device=device)
