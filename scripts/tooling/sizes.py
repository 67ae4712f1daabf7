"""scripts/images sizes: the table of sizes in an image's README, from the images that are here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tooling.machine import ScriptError, ask
from tooling.tables import table

BEGIN = "<!-- sizes: written by `scripts/images sizes` from here -->\n"
END = "<!-- sizes: to here -->\n"
FORM = "{{.Size}} {{.CreatedBy}}"
# A layer is known by the words of its step.
LAYERS = {
    "torch": "COPY /opt/venv",
    "CUDA's libraries": "COPY /cuda",
    "compiler": "add_compiler.py",
    "Open MPI": "add_mpi.py",
    "Horovod": "install_horovod.py",
    "EFA": "install_efa.py",
    "muster": "install_muster.py",
}
EFA_SUFFIXES = ("", "-efa-stand-in", "-noefa")


def layers(image: str) -> dict[str, int] | None:
    """Return the bytes of each kind of layer, `base` for all others; None without the image. Effects: asks the engine."""
    told = ask("docker", "history", "--no-trunc", "--human=false", "--format", FORM, image)
    if told is None:
        return None
    found = dict.fromkeys(("base", *LAYERS), 0)
    for line in told.splitlines():
        size, _, step = line.partition(" ")
        kind = next((name for name, words in LAYERS.items() if words in step), "base")
        found[kind] += int(size)
    return found


def row(cell: str, image: str, budget: str) -> tuple[str, ...]:
    """Return a cell's row. Raises ScriptError where it is not built. Effects: asks the engine."""
    found = next(filter(None, (layers(image + suffix) for suffix in EFA_SUFFIXES)), None)
    if found is None:
        raise ScriptError(f"{image} is not here: build all images first")
    sizes = (
        f"{size / 1e9:.2f}" if size else "" for name, size in found.items() if name != "muster"
    )
    return (f"`{cell}`", f"{sum(found.values()) / 1e9:.2f} GB", budget, *sizes)


def text(cells: Mapping[str, tuple[str, str]]) -> str:
    """Return the table of cells, each with its tag and budget. Raises ScriptError. Effects: asks the engine."""
    titles = ("cell", "size", "budget", "base", *(name for name in LAYERS if name != "muster"))
    return table(titles, (row(cell, *cells[cell]) for cell in cells))


def write(readme: Path, cells: Mapping[str, tuple[str, str]]) -> None:
    """Put the table between the README's marks. Raises ScriptError. Effects: the file."""
    page = readme.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    if not pattern.search(page):
        raise ScriptError(f"{readme} has no place for the sizes: {BEGIN.strip()}")
    body = f"{BEGIN}\n{text(cells)}\n{END}"
    readme.write_text(pattern.sub(lambda _: body, page), encoding="utf-8")
