"""The command line of scripts/bench, and the order of things."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tooling import engine
from tooling.bench import facts, page, parts, peer
from tooling.bench.containers import Images
from tooling.bench.results import CONTENDERS, Results, as_json
from tooling.bench.targets import verdicts
from tooling.images import ROOT
from tooling.machine import ScriptError, act, ask, say

PAGE = ROOT / "docs" / "performance.md"
OUTPUT = ROOT / "build" / "bench"
NAMES = tuple(part.name for part in parts.table(parts.Setup(Images("", ""), 0, 0, 0)))
DESCRIPTION = "Measures muster beside bare torchrun and AWS's own toolkit, in interleaved rounds."


@dataclass
class Absences:
    """What is not measured, and why."""

    engine: str = ""
    """Why no part with containers runs; empty when they do."""
    peer: str = ""
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def arguments() -> argparse.ArgumentParser:
    """Return the command line's parser. Pure."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=DESCRIPTION)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each contender (3)")
    parser.add_argument("--lines", type=int, default=300_000, help="log lines (300000)")
    parser.add_argument("--after", type=int, default=80_000, help="lines after ValueError (80000)")
    parser.add_argument("--image", default="muster/ddp:cpu", help="muster's image")
    parser.add_argument("--no-peer", action="store_true", help="leave out AWS's toolkit")
    parser.add_argument("--only", choices=NAMES, nargs="+", help="these parts, and no page")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of the JSON file")
    parser.add_argument("--no-page", action="store_true", help=f"leave docs/{PAGE.name} as it is")
    return parser


def prepare(image: str, *, with_peer: bool) -> Absences:
    """Build the peer's image and warm both up. Effects: an image; containers for a moment."""
    absences = Absences()
    if lacks := engine.missing():
        absences.engine = f"no Docker {' and '.join(lacks)} here: run scripts/engine"
    elif not ask("docker", "image", "inspect", "--format", "{{.Id}}", image):
        # Not a machine that can't, but one where something was forgotten.
        absences.engine = f"the image {image} is missing: run `make images`"
        absences.failed["parts with containers"] = absences.engine
    if absences.engine:
        return absences
    images = [image]
    if with_peer:
        try:
            peer.build(image)
            images.append(peer.NAME)
        except (ScriptError, OSError) as error:
            absences.peer = absences.failed[CONTENDERS["peer"]] = f"image not built: {error}"
            say(f"bench: {absences.peer}")
    else:
        absences.peer = absences.skipped[CONTENDERS["peer"]] = "--no-peer"
    for name in images:  # else the first contender alone would pay for reading torch from the disk
        warm = ("--network", "none", "--entrypoint", "python", name, "-c", "import torch")
        act("docker", "run", "--rm", *warm, timeout=120, quiet=True)
    return absences


def measure(setup: parts.Setup, wanted: Sequence[parts.Part], absences: Absences) -> Results:
    """Run the parts and collect what they give. Effects: as the parts say."""
    measurements = []
    absent = ("peer",) if absences.peer else ()
    for part in wanted:
        if part.containers and absences.engine:
            absences.skipped[f"part {part.name}"] = absences.engine
            continue
        found, failed = parts.run(part, setup, absent)
        measurements += found
        absences.failed |= {f"{CONTENDERS[who]} in {part.name}": why for who, why in failed.items()}
    in_containers = any(part.containers for part in wanted) and not absences.engine
    return Results(
        date=dt.datetime.now(dt.timezone.utc).date().isoformat(),
        machine=facts.machine(),
        versions=facts.versions(
            setup.images.muster if in_containers else None,
            with_peer=in_containers and not absences.peer,
        ),
        rounds=setup.rounds,
        measurements=tuple(one for one in measurements if one.samples),
        skipped=absences.skipped,
        failed=absences.failed,
    )


def save(results: Results, folder: Path, *, with_page: bool) -> Path:
    """Write the JSON file and the page's tables. Raises ScriptError. Effects: two files."""
    folder.mkdir(parents=True, exist_ok=True)
    now = dt.datetime.now(dt.timezone.utc)
    path = folder / f"{now:%Y%m%d-%H%M%S}.json"
    data = {**as_json(results), "targets": [asdict(one) for one in verdicts(results)]}
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    if with_page:
        old = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page.put(old, page.text(results)), encoding="utf-8")
    return path


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, save and print; 0 when all that this machine can run was run, whatever the figures. Effects: as above."""
    options = arguments().parse_args(argv)
    output = options.output.resolve()
    os.chdir(ROOT)
    try:
        images = Images(options.image, peer.NAME)
        setup = parts.Setup(images, options.rounds, options.lines, options.after)
        wanted = [p for p in parts.table(setup) if not options.only or p.name in options.only]
        absences = Absences()
        if any(part.containers for part in wanted):
            absences = prepare(options.image, with_peer=not options.no_peer)
        results = measure(setup, wanted, absences)
        path = save(results, output, with_page=not (options.no_page or options.only))
    except (ScriptError, OSError) as error:
        say(f"bench: {error}")
        return 1
    print(page.text(results))
    say(f"bench: written to {path}")
    return 1 if results.failed else 0
