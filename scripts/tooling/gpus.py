"""docs/gpus.md: which image for which instance, from the harness's own table. Needs Python 3.11: make reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomllib

from tooling.tables import table

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "docs" / "gpus.md"
INSTANCES = ROOT / "entrypoint" / "src" / "muster" / "plan" / "instances.toml"
HEAD = """# Which GPU image

Made from entrypoint/src/muster/plan/instances.toml by `make reference`.

A build of PyTorch holds code for some GPUs, and its CUDA needs a driver of some age. SageMaker's hosts bring the driver;
`nvidia-smi` on them says which. A GPU runs code that was built for its own compute capability, or for a smaller one with
the same number before the point.

"""
NOTES = """
V100 hosts (ml.p3) need `gpu-cu126`, as CUDA 13 has dropped them; its PyTorch is the newest one that PyPI has for CUDA 12.6.
`muster/horovod:gpu` is for the instances of `gpu`; there is none for ml.p3.
`/opt/muster/manifest.json` in an image says what it holds. ml.g5g and ml.p6e-gb200 have ARM processors, for which there
is no image. No image has run on these instances yet: the table is what PyTorch and NVIDIA say.
"""


def serves(tag: dict[str, Any], capability: str) -> bool:
    """Tell whether a tag's torch has code that a GPU runs: same major number, and no higher minor one. Pure."""
    major, minor = map(int, capability.split("."))
    built = [tuple(map(int, each.split("."))) for each in tag["architectures"]]
    return any(one == major and two <= minor for one, two in built)


def text(instances: dict[str, Any]) -> str:
    """Return the page. Raises ValueError for an instance that no tag serves. Pure."""
    rows = []
    for family in instances["families"]:
        tags = [tag for tag in instances["tags"] if serves(tag, family["capability"])]
        if not tags:
            raise ValueError(f"no image serves {family['names']}")
        names = ", ".join(f"`{tag['tag']}`" for tag in tags)
        drivers = ", ".join(tag["minimum_driver"] for tag in tags)
        rows.append(
            (", ".join(family["names"]), family["gpu"], family["capability"], drivers, names)
        )
    titles = ("instances", "GPU", "compute capability", "driver, at least", "tag of muster/ddp")
    built = [
        (f"`{tag['tag']}`", tag["cuda"], ", ".join(tag["architectures"]), tag["minimum_driver"])
        for tag in instances["tags"]
    ]
    reach = table(("tag", "CUDA", "built for", "driver, at least"), built)
    return f"{HEAD}{table(titles, rows)}\n{reach}{NOTES}"


def write() -> None:
    """Write the page. Raises ValueError. Effects: docs/gpus.md."""
    instances = tomllib.loads(INSTANCES.read_text(encoding="utf-8"))
    PATH.write_text(text(instances), encoding="utf-8")
