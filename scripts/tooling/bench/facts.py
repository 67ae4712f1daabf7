"""What the page says of the machine and of the versions."""

from __future__ import annotations

import json
import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tooling.bench import peer
from tooling.bench.results import Machine
from tooling.machine import ask

GIB_IN_KIB = 1024 * 1024
SHOWN = ("muster", "python", "torch")


def machine() -> Machine:
    """Return what this machine has. Effects: reads /proc, asks the GPU driver."""
    info = Path("/proc/meminfo").read_text(encoding="ascii")
    total = re.search(r"^MemTotal: +(\d+) kB", info, re.MULTILINE)
    gpus = ask("nvidia-smi", "--list-gpus") or ""
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(int(total[1]) / GIB_IN_KIB) if total else 0,
        gpus=len(gpus.splitlines()),
    )


def _here() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("muster", "torch"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def versions(image: str | None, *, with_peer: bool) -> dict[str, str]:
    """Return the versions that were measured; without an image those of this venv. Effects: asks the engine."""
    found = _here()
    if image:
        inside = ("--network", "none", "--entrypoint", "cat", image, "/opt/muster/manifest.json")
        manifest = ask("docker", "run", "--rm", *inside, timeout=60)
        found = json.loads(manifest)["versions"] if manifest else {}
    shown = {name: found[name] for name in SHOWN if name in found}
    if image and (server := ask("docker", "version", "--format", "{{.Server.Version}}")):
        shown["Docker"] = server
    return {**shown, **(peer.pins() if with_peer else {})}
