"""scripts/images: builds the images on this machine, with its own CA bundle, package indexes and proxies.

They reach the build as secrets and predefined proxy arguments, through one override file beside docker-bake.hcl that only
this user can read and that is gone afterwards: neither an image, nor its history, nor the process list shows them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tooling import base_image, handover, sizes
from tooling.efa import stand_in
from tooling.handover import wants_efa
from tooling.machine import ScriptError, ask, say

ROOT = Path(__file__).resolve().parents[2]
BAKE_FILE = Path("docker-bake.hcl")
DEFAULT_BASE = "python:3.11-slim-bookworm"
PULL_S = 180.0
BUILD_S = 5400.0
DESCRIPTION = "Builds the images on this machine, with its CA bundle, package indexes and proxies."
BUILDX = {
    # Newer buildx asks at the terminal before it reads the secrets, which lie outside of the context.
    "BUILDX_BAKE_ENTITLEMENTS_FS": "0",
    # Else the stages that images are made of would lie in the engine as nameless images.
    "BUILDX_NO_DEFAULT_LOAD": "1",
}


def available(base: str) -> bool:
    """Tell whether the engine has the image or can pull it. Effects: may pull it."""
    if ask("docker", "image", "inspect", "--format", "{{.Id}}", base):
        return True
    return ask("docker", "pull", "-q", base, timeout=PULL_S) is not None


def choose_base(wanted: str | None) -> tuple[str, bool]:
    """Return the base to build on, and whether it stands in for the default one.

    Raises ScriptError. Effects: may pull or make a base.
    """
    name, _, kind = (wanted or DEFAULT_BASE).partition(":")
    if name == base_image.NAME and kind in base_image.KINDS:
        return base_image.make(kind), True
    if wanted or available(DEFAULT_BASE):
        return wanted or DEFAULT_BASE, False
    stand_in = base_image.make("debootstrap")
    say(
        f"images: {DEFAULT_BASE} can't be pulled here, {stand_in} stands in (MUSTER_BASE_IMAGE names another)"
    )
    return stand_in, True


def planned(targets: Sequence[str], file: Path, env: dict[str, str]) -> dict[str, handover.Target]:
    """Return bake's own plan: each target that takes part. Raises ScriptError. Effects: runs bake."""
    command = ["docker", "buildx", "bake", "--print", "-f", str(file), *targets]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise ScriptError(f"bake can't plan {' '.join(targets)}:\n{done.stderr.strip()[-2000:]}")
    plan: dict[str, handover.Target] = json.loads(done.stdout)["target"]
    return plan


def revision() -> dict[str, str]:
    """Return the commit as bake's variable, unless it is set or there is none. Effects: asks git."""
    commit = ask(
        "git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"
    )
    return {"MUSTER_REVISION": commit} if commit and "MUSTER_REVISION" not in os.environ else {}


def network(no_registry: bool) -> str | None:
    """Return the network mode of the build steps; None is the builder's default. Effects: reads the environment.

    A machine without a registry often routes from itself alone, and a proxy on the loopback is only there.
    """
    if wanted := os.environ.get("MUSTER_BUILD_NETWORK"):
        return wanted
    local = any(
        "//localhost" in url or "//127." in url for url in handover.proxies(os.environ).values()
    )
    return "host" if no_registry or local else None


def bake(
    targets: Sequence[str],
    file: Path,
    env: dict[str, str],
    mode: str | None,
    extra: Sequence[str] = (),
) -> None:
    """Build the targets of a bake file into the engine, with what this machine's builds need.

    `env` holds the file's variables, `mode` is the steps' network. Raises ScriptError. Effects: images and build cache.
    """
    env = {**BUILDX, **env}
    plan = planned(targets, file, env)
    with tempfile.TemporaryDirectory(prefix="muster-build-") as folder:  # mode 0700
        settings = handover.gather(Path(folder), {**os.environ, **env})
        overrides = {name: settings.target(target, mode) for name, target in plan.items()}
        path = Path(folder) / "override.json"
        path.write_text(json.dumps({"target": overrides}), encoding="utf-8")
        allowed = mode == "host" and handover.asks_entitlements()
        allow = ("--allow", "network.host") if allowed else ()
        files = ("-f", str(file), "-f", str(path))
        run_bake(*allow, *files, *extra, *targets, env=env)


def run_bake(*words: str, env: dict[str, str]) -> None:
    """Run bake, its output on stderr. Raises ScriptError, with the step's own line where one speaks. Effects: builds."""
    command = ("docker", "buildx", "bake", *words)
    said = ""
    process = subprocess.Popen(
        command,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout  # noqa: S101  (it is a pipe)
    with contextlib.closing(process.stdout):
        for line in process.stdout:
            sys.stderr.write(line)
            # The steps' own errors are lines far above the end of what bake prints.
            said = found[1] if (found := re.match(r"#\d+ [\d.]+ muster: (.+)", line)) else said
    if status := process.wait(timeout=BUILD_S):
        raise ScriptError(said or f"docker buildx bake ended with status {status}")


def choose_efa(targets: Sequence[str], env: dict[str, str], *, no_registry: bool) -> dict[str, str]:
    """Return bake's variables for a stand-in of EFA's installer, where one is asked for or nothing else can be had.

    Raises ScriptError. Effects: may make the stand-in.
    """
    asked = os.environ.get("MUSTER_EFA")
    if asked != "stand-in" and (asked or "MUSTER_EFA_FOLDER" in os.environ or not no_registry):
        return {}
    plan = planned(targets, BAKE_FILE, env)
    wanted = [target["args"]["EFA_VERSION"] for target in plan.values() if wants_efa(target)]
    if not wanted:
        return {}
    made = stand_in.make(ROOT / "build" / "efa", wanted[0])
    if not asked:
        say("images: a stand-in takes EFA's place, the tags say so (MUSTER_EFA=no: none at all)")
    return {
        "MUSTER_EFA": "stand-in",
        "MUSTER_EFA_FOLDER": str(made.folder),
        "MUSTER_EFA_SHA256": made.sha256,
        "MUSTER_EFA_FINGERPRINT": made.fingerprint,
    }


def build(targets: Sequence[str], base: str | None, suffix: str, extra: Sequence[str] = ()) -> bool:
    """Build targets of docker-bake.hcl, and tell whether that was on a stand-in for the default base.

    Raises ScriptError. Effects: images and build cache in the engine.
    """
    chosen, no_registry = choose_base(base)
    env = {"MUSTER_BASE_IMAGE": chosen, "MUSTER_TAG_SUFFIX": suffix, **revision()}
    env |= choose_efa(targets, env, no_registry=no_registry)
    bake(targets, BAKE_FILE, env, network(no_registry), extra)
    return no_registry


def write_sizes() -> None:
    """Write the table of each image's README. Raises ScriptError. Effects: those files."""
    by_readme: dict[Path, dict[str, tuple[str, str]]] = {}
    for name, target in planned(["all"], BAKE_FILE, {}).items():
        if target.get("tags"):
            readme = ROOT / Path(target["dockerfile"]).parent / "README.md"
            cell = (target["tags"][0], target["labels"]["muster.budget"])
            by_readme.setdefault(readme, {})[name] = cell
    for readme, cells in by_readme.items():
        sizes.write(readme, cells)


def arguments() -> argparse.ArgumentParser:
    """Return the command line's parser. Pure."""
    parser = argparse.ArgumentParser(prog="scripts/images", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("sizes", help="write the sizes of all images into their READMEs")
    command = commands.add_parser("build", help="build targets or groups of docker-bake.hcl")
    command.add_argument("targets", nargs="*", metavar="TARGET", help="as bake names them")
    command.add_argument(
        "--base",
        default=os.environ.get("MUSTER_BASE_IMAGE"),
        help="the base image (MUSTER_BASE_IMAGE); muster-base:debootstrap, :slim and :trixie are made here",
    )
    command.add_argument(
        "--tag-suffix",
        default=os.environ.get("MUSTER_TAG_SUFFIX", ""),
        help="appended to every tag (MUSTER_TAG_SUFFIX)",
    )
    command.add_argument(
        "--look-alike",
        action="store_true",
        help="where a stand-in is used: build on the look-alike of the default base too, as …-slim",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Build images; 0 when all of them were built. What follows `--` goes to bake. Effects: as build says."""
    words = list(sys.argv[1:] if argv is None else argv)
    split = words.index("--") if "--" in words else len(words)
    options = arguments().parse_args(words[:split])
    os.chdir(ROOT)
    try:
        if not ask("docker", "version", "--format", "{{.Server.Version}}"):
            raise ScriptError("no Docker engine answers: run scripts/engine")  # noqa: TRY301
        if options.command == "sizes":
            write_sizes()
            return 0
        targets = options.targets or ["default"]
        no_registry = build(targets, options.base, options.tag_suffix, words[split + 1 :])
        if options.look_alike and no_registry:
            slim, suffix = f"{base_image.NAME}:slim", f"{options.tag_suffix}-slim"
            build(targets, slim, suffix, words[split + 1 :])
    except (ScriptError, OSError, subprocess.SubprocessError) as error:
        say(f"images: {error}")
        return 1
    return 0
