"""A GPU image needs a GPU: without one it would train on the CPU, slowly, at the price of GPUs."""

from __future__ import annotations

import os
from collections.abc import Mapping

from muster.errors import CheckError
from muster.model import Job
from muster.settings import Settings

_CONTROL_DEVICE = "/dev/nvidiactl"


def refuse_missing_gpu(
    job: Job, settings: Settings, env: Mapping[str, str], control_device: str = _CONTROL_DEVICE
) -> None:
    """Ends a job whose image is made for GPUs on a host where a framework would see none.

    Args:
        job: the job, with what this host shows of GPUs.
        settings: the image's device, and whether the job may do without.
        env: the container's environment, for the message.
        control_device: the driver's file, which is in each container that was given a GPU.

    Raises:
        CheckError: the image is a GPU image, this host shows no GPU, and MUSTER_ALLOW_CPU is not
            set (docs/adr/0015). CPU images are never compared with anything.
    """
    if settings.image_device != "gpu" or job.machine.gpus or settings.allow_cpu:
        return
    what = f"this image is made for GPUs, and {job.current_host} shows none"
    raise CheckError(f"{what}: {_why(env, control_device)}", _remedy(env))


def _why(env: Mapping[str, str], control_device: str) -> str:
    if not os.path.exists(control_device):
        return f"the container has no {control_device}"
    hidden = env.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None:
        return f"CUDA_VISIBLE_DEVICES={hidden!r} hides them, or the driver does not answer"
    return "the driver does not answer"


def _remedy(env: Mapping[str, str]) -> str:
    if "CUDA_VISIBLE_DEVICES" in env:
        first = "Unset CUDA_VISIBLE_DEVICES, or look at `nvidia-smi`."
    else:
        first = "Choose a GPU instance; by hand: `docker run --gpus all`."
    return f"{first} The tag cpu is for hosts without GPUs; MUSTER_ALLOW_CPU=1 goes on without."
