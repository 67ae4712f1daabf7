"""scripts/smoke: what must work on a machine with a GPU, in an image, in under five minutes."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tooling.machine import ScriptError, act, ask, say
from tooling.sizes import EFA_SUFFIXES

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "build" / "digits"
SMOKE = ROOT / "tests" / "gpu" / "smoke.py"
DEVICE = Path("/dev/nvidiactl")
LIMIT_S = 600.0
DESCRIPTION = (
    "Tries an image on this machine's GPUs: versions, training, NCCL, torch.compile, statuses."
)


def choose(named: str | None) -> str:
    """Return the image to try. Raises ScriptError where there is none. Effects: asks the engine."""
    tags = (named,) if named else tuple(f"muster/ddp:gpu{end}" for end in EFA_SUFFIXES)
    for tag in tags:
        if ask("docker", "image", "inspect", "--format", "{{.Id}}", tag):
            return tag
    raise ScriptError(f"no image {' or '.join(tags)} here: `make images-gpu` builds the GPU images")


def in_image(image: str, words: Sequence[str], *, cpu: bool) -> list[str]:
    """Return the command that runs the parts in a container. Pure."""
    mounts = {ROOT / "tests" / "gpu": "/smoke", ROOT / "examples": "/examples", DATA: "/digits"}
    volumes = [f"--volume={source}:{target}:ro" for source, target in mounts.items()]
    # What NVIDIA recommends for NCCL, and what SageMaker's hosts have; memory is locked for devices alone.
    limits = ["--ulimit=memlock=-1", "--ulimit=stack=67108864"]
    gpus = [] if cpu else ["--gpus=all", *limits]
    run = [
        "docker",
        "run",
        "--rm",
        "--network=none",
        *gpus,
        "--shm-size=1g",
        *volumes,
        "--entrypoint=python",
    ]
    inside = ["-B", "/smoke/smoke.py", "--data=/digits", "--examples=/examples"]
    return [*run, image, *inside, *words]


def here(words: Sequence[str]) -> list[str]:
    """Return the command that runs the parts with the Python that runs this script. Pure."""
    return [sys.executable, str(SMOKE), f"--data={DATA}", *words]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts; their status, or 1 where they could not be started. Effects: containers or processes; its report."""
    parser = argparse.ArgumentParser(prog="scripts/smoke", description=DESCRIPTION)
    parser.add_argument("image", nargs="?", help="default: muster/ddp:gpu, with or without EFA")
    parser.add_argument(
        "--here",
        action="store_true",
        help="without Docker: this Python, its torch, and muster on PATH",
    )
    parser.add_argument("--cpu", action="store_true", help="rehearse without a GPU")
    parser.add_argument("--only", nargs="+", metavar="PART", default=[], help="these parts alone")
    options = parser.parse_args(argv)
    words = [
        *(["--cpu"] if options.cpu else []),
        *(["--only", *options.only] if options.only else []),
    ]
    try:
        if not options.cpu and not DEVICE.exists():
            raise ScriptError("no GPU here; --cpu rehearses without one")  # noqa: TRY301
        if not (DATA / "digits.npz").is_file():
            act("make", "-C", str(ROOT), "build/digits/digits.npz", timeout=600)
        if options.here:
            command = here(words)
        else:
            command = in_image(choose(options.image), words, cpu=options.cpu)
        return subprocess.run(command, timeout=LIMIT_S, check=False, env=os.environ).returncode
    except (ScriptError, OSError, subprocess.SubprocessError) as error:
        say(f"smoke: {error}")
        return 1
