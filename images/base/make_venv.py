"""Makes /opt/venv, the user's environment, with torch in it: the longest step of every image.

A base that holds torch keeps it: /opt/venv then leads to where the base has it, and nothing is installed twice. What torch
says of itself is written down beside it, for the manifest, and has to be what the image's tag says.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

VENV = Path("/opt/venv")
TOOLS = "/opt/tools/"
WHEELS = Path("/mnt/wheels")
CUDA = Path("/cuda")
"""What becomes the layer of CUDA's libraries, at its place below this folder."""
FACTS = VENV / "torch.json"
USUAL = (VENV / "bin/python", Path("/opt/conda/bin/python"), Path("/usr/bin/python3"))

LOOK = """
import importlib.metadata as m, json, os, site, sys
try:
    version = m.version("torch")
except m.PackageNotFoundError:
    version = ""
folders = [p for p in sys.path if p.endswith(("site-packages", "dist-packages")) and os.path.isdir(p)]
held = [d.metadata["Name"].lower().replace("_", "-") for d in m.distributions()]
print(json.dumps({"version": version, "folders": folders, "held": held}))
"""
DESCRIBE = """
import json, platform, sys
import boto3, numpy, torch
assert torch.distributed.is_gloo_available(), "this torch has no gloo"
cuda = torch.version.cuda
facts = {"torch": torch.__version__, "python": platform.python_version(), "cuda": cuda}
facts["folders"] = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
if cuda:
    facts["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    facts["architectures"] = torch._C._cuda_getArchFlags().split()
print(json.dumps(facts))
"""
TORCHRUN = (
    "#!/opt/venv/bin/python\nfrom torch.distributed.run import main\n\nraise SystemExit(main())\n"
)


class BuildError(Exception):
    """The image can't be built so; the message says what to change."""


@dataclass(frozen=True)
class Base:
    """A Python of the base that has torch: its folders of packages, and the packages' names."""

    python: Path
    version: str
    folders: tuple[str, ...]
    held: frozenset[str]


def torch_of_base() -> Base | None:
    """Return the base's own torch; None where no Python of the base has one. Effects: runs its Pythons."""
    folders = [part for part in os.environ["PATH"].split(":") if not part.startswith(TOOLS)]
    on_path = [Path(part, name) for part in folders for name in ("python3", "python")]
    for python in dict.fromkeys((*on_path, *USUAL)):
        if not os.access(python, os.X_OK):
            continue
        done = subprocess.run([python, "-c", LOOK], capture_output=True, text=True, check=False)
        found = json.loads(done.stdout) if done.returncode == 0 else {"version": ""}
        if found["version"]:
            held = frozenset(found["held"])
            return Base(python, found["version"], tuple(found["folders"]), held)
    return None


def pip_install(*words: str) -> None:
    """Install into /opt/venv. Raises CalledProcessError. Effects: pip, network."""
    subprocess.run(["pip", "--python", str(VENV / "bin/python"), "install", *words], check=True)


def packages() -> Path:
    """Return the venv's site-packages. Effects: lists it."""
    (folder,) = VENV.glob("lib/python3.*/site-packages")
    return folder


def build(torch: str, index: str, requirements: list[str]) -> None:
    """Make the venv with a torch of its own. Raises CalledProcessError. Effects: files, network."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", VENV], check=True)
    # A wheel in the folder is all that is needed, so its index is not asked then: it may be out of reach.
    ask_index = index and not any(WHEELS.glob(f"torch-{torch}-*.whl"))
    where = ["--find-links", str(WHEELS), *(["--extra-index-url", index] if ask_index else [])]
    # `===` compares text: a GPU image never takes a CPU wheel of the same version, or the other way round.
    pip_install(*where, f"torch==={torch}", *requirements)
    # torch's wheel brings 130 MB of its own C++ tests. Its headers stay: torch.compile needs them.
    shutil.rmtree(packages() / "torch/test", ignore_errors=True)
    for program in (packages() / "torch/bin").glob("*[tT]est*"):
        program.unlink()


def adopt(base: Base, requirements: list[str]) -> None:
    """Make the venv lead to the base's torch, and add what the base lacks. Raises CalledProcessError. Effects: files, network."""
    print(f"the base has torch {base.version} ({base.python}): it stays as it is", flush=True)
    if not base.python.is_relative_to(VENV):
        subprocess.run([base.python, "-m", "venv", "--without-pip", VENV], check=True)
        # addsitedir, unlike a line with the folder's name, also reads the .pth files in it.
        lines = [f"import site; site.addsitedir({folder!r})\n" for folder in base.folders]
        (packages() / "base.pth").write_text("".join(lines), encoding="utf-8")
    missing = [one for one in requirements if one.partition("==")[0] not in base.held]
    # The base's pip would install into the base.
    pip = [one for one in requirements if one.startswith("pip==")]
    pip_install("--ignore-installed", "--no-deps", *pip)
    if missing:
        pip_install(*missing, f"torch==={base.version}")
    if not (VENV / "bin/torchrun").exists():
        (VENV / "bin/torchrun").write_text(TORCHRUN, encoding="utf-8")
        (VENV / "bin/torchrun").chmod(0o755)


def describe() -> dict[str, object]:
    """Return what torch says of itself; it needs no GPU for that. Raises BuildError. Effects: runs it."""
    command = [VENV / "bin/python", "-c", DESCRIBE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"torch can't be used in /opt/venv:\n{done.stderr.strip()}")
    facts: dict[str, object] = json.loads(done.stdout)
    return facts


def check_tag(facts: dict[str, object], tag: str, flavour: str) -> None:
    """Compare what the image holds with the tag that it will get, and with its cell. Raises BuildError. Pure."""
    torch = str(facts["torch"]).partition("+")[0]
    found = f"cu{facts['cuda']}".replace(".", "") if facts["cuda"] else "cpu"
    holds = f"{torch}-{found}-{python_tag(str(facts['python']))}"
    # All of CUDA 12 is one to the driver, and so is all of 13.
    if found[:4] != flavour[:4]:
        message = f"the base has torch {torch} for {found}, and this cell is for {flavour}"
        raise BuildError(
            f"{message}: build the cell whose name says {found[:4]}, or take another base"
        )
    if holds != tag:
        message = f"the image would be tagged {tag}, but it holds {holds}"
        raise BuildError(f"{message}: set MUSTER_VERSION_TAG={holds} if that is what you want")


def check_python(tag: str) -> None:
    """See that the tag has this Python, before gigabytes are fetched for it. Raises BuildError. Pure."""
    here = python_tag(platform.python_version())
    if not tag.endswith(f"-{here}"):
        right = f"{tag.rpartition('-')[0]}-{here}"
        message = (
            f"the image would be tagged {tag}, but the base has Python {platform.python_version()}"
        )
        raise BuildError(f"{message}: set MUSTER_VERSION_TAG={right} if that is what you want")


def python_tag(version: str) -> str:
    """Return py311 for 3.11.2. Pure."""
    return "py" + "".join(version.split(".")[:2])


def snapshot() -> dict[Path, tuple[int, int]]:
    """Return size and time of each file in the venv. Effects: walks it."""
    found = {}
    for path in VENV.rglob("*"):
        if not path.is_dir() or path.is_symlink():
            status = path.lstat()
            found[path] = (status.st_size, status.st_mtime_ns)
    return found


def keep_new(before: dict[Path, tuple[int, int]]) -> None:
    """Remove what the base has as well: the image has it from there. Effects: files."""
    for path, mark in snapshot().items():
        if before.get(path) == mark:
            path.unlink()


def split_cuda() -> None:
    """Move NVIDIA's libraries apart, so that they become a layer of their own. Effects: moves a folder."""
    libraries = packages() / "nvidia"
    target = CUDA / libraries.relative_to("/")
    CUDA.mkdir()
    if libraries.is_dir():
        target.parent.mkdir(parents=True)
        libraries.rename(target)


def main(argv: list[str]) -> int:
    """Make the venv; 0 when it is whole. Effects: as above."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tag", required=True)
    parser.add_argument("--torch", required=True)
    parser.add_argument("--flavour", required=True, help="cpu, or CUDA's version as cu130")
    parser.add_argument("--index", default="")
    parser.add_argument("requirements", nargs="+")
    options = parser.parse_args(argv)
    before = snapshot() if VENV.is_dir() else {}
    base = torch_of_base()
    try:
        if base:
            adopt(base, options.requirements)
        else:
            check_python(options.tag)
            build(options.torch, options.index, options.requirements)
        facts = describe()
        check_tag(facts, options.tag, options.flavour)
    except BuildError as error:
        print(f"muster: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        what = (
            f"torch {options.torch} for Python {platform.python_version()}"
            if not base
            else "packages"
        )
        print(f"muster: {what} can't be installed: {error}; pip says why above", file=sys.stderr)
        return 1
    FACTS.write_text(json.dumps(facts) + "\n", encoding="utf-8")
    if base and base.python.is_relative_to(VENV):
        CUDA.mkdir()
        keep_new(before)
    else:
        split_cuda()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
