"""Puts muster's own wheels into an image: the last step of every image's build, in one small layer.

Runs on the image's /opt/venv, needs no network, and writes what the image holds into /opt/muster.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

HARNESS = Path("/opt/muster")
VENV = Path("/opt/venv")
TORCH = VENV / "torch.json"
"""What make_venv.py has found out."""
BIN = Path("/usr/local/bin")
# Isolated (-I): neither PYTHONPATH nor a queue.py beside the user's script can shadow what the harness imports.
SHEBANG = "#!/opt/muster/bin/python -I\n"
COMMANDS = {
    "muster": "from muster.cli import main\n\nraise SystemExit(main())\n",
    "muster-rank": "from muster.launch.shim import main\n\nraise SystemExit(main())\n",
    "muster-rsh": "from muster.launch.rsh import main\n\nraise SystemExit(main())\n",
    "train": 'import sys\n\nfrom muster.cli import main\n\nraise SystemExit(main(["train", *sys.argv[1:]]))\n',
}
# Any driver of the same major version or newer runs it:
# https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
MINIMUM_DRIVER = {"12": "525.60.13", "13": "580.65.06"}
# `ssh` and `rsh` for launchers, where muster alone puts them on PATH: a job's /tmp may forbid programs.
STAND_INS = HARNESS / "libexec" / "muster"
# The layer is to stay small, and bytecode is most of it. The first two run on the machine that starts or submits jobs, not in
# the image; the others on hosts with GPUs, or before ranks that import torch: reading their text costs a few milliseconds there.
UNCOMPILED = ("local", "sdk", "check/gpu", "check/collective")
# A constraint on these would only stop users from upgrading their tools.
UNCONSTRAINED = {"muster", "muster-perf", "pip", "setuptools", "wheel"}


def packages(venv: Path) -> Path:
    """Return a venv's site-packages. Raises ValueError where there is none. Effects: lists it."""
    (folder,) = venv.glob("lib/python3.*/site-packages")
    return folder


def install(wheel: Path) -> None:
    """Install the wheel into the harness's venv. Raises CalledProcessError. Effects: files there."""
    pip = [str(VENV / "bin/pip"), "--python", str(HARNESS / "bin/python")]
    # An image may be built on another that has an older muster.
    options = ["--no-deps", "--no-index", "--force-reinstall", "--quiet"]
    subprocess.run([*pip, "install", *options, str(wheel)], check=True)
    for part in UNCOMPILED:
        shutil.rmtree(packages(HARNESS) / "muster" / part / "__pycache__", ignore_errors=True)
    for command in COMMANDS:  # pip's own run without -I
        (HARNESS / "bin" / command).unlink(missing_ok=True)


def install_benchmark(wheel: Path) -> None:
    """Install the benchmark beside torch: its commands are on PATH. Raises CalledProcessError. Effects: files there."""
    # Without bytecode, as parts of the harness: torch's own import takes forty times as long.
    options = ["--no-deps", "--no-index", "--force-reinstall", "--no-compile", "--quiet"]
    subprocess.run([str(VENV / "bin/pip"), "install", *options, str(wheel)], check=True)


def share() -> None:
    """Put the same files into the user's venv, as hard links: half the layer. Effects: files there."""
    ours, theirs = packages(HARNESS), packages(VENV)
    for old in theirs.glob("muster[-.]*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.rmtree(theirs / "muster", ignore_errors=True)
    for new in (ours / "muster", *ours.glob("muster[-.]*")):
        if new.is_dir():
            shutil.copytree(new, theirs / new.name, copy_function=os.link)
        else:
            (theirs / new.name).hardlink_to(new)


def write_commands() -> None:
    """Write the commands that the image has on PATH. Effects: files in /usr/local/bin."""
    BIN.mkdir(parents=True, exist_ok=True)
    for name, body in COMMANDS.items():
        path = BIN / name
        path.write_text(SHEBANG + body, encoding="utf-8")
        path.chmod(0o755)
    STAND_INS.mkdir(parents=True, exist_ok=True)
    for name in ("ssh", "rsh"):
        (STAND_INS / name).write_text(SHEBANG + COMMANDS["muster-rsh"], encoding="utf-8")
        (STAND_INS / name).chmod(0o755)


def versions(folders: list[str]) -> dict[str, str]:
    """Return what folders of packages hold, by name; the first that has a package counts. Effects: reads metadata."""
    found = distributions(path=folders[::-1])
    named = {dist.metadata["Name"]: dist.version for dist in found}
    return dict(sorted(named.items(), key=lambda pair: pair[0].lower()))


def cuda() -> dict[str, dict[str, object]]:
    """Return what torch said of CUDA when the venv was made; empty for a CPU build. Effects: reads its file."""
    facts = json.loads(TORCH.read_text(encoding="utf-8"))
    if not facts["cuda"]:
        return {}
    major = facts["cuda"].partition(".")[0]
    wanted = {name: facts[name] for name in ("cuda", "nccl", "architectures")}
    return {"cuda": {**wanted, "minimum_driver": MINIMUM_DRIVER[major]}}


def efa() -> dict[str, dict[str, object]]:
    """Return what EFA's installation has left as its record; empty without EFA. Effects: reads its file."""
    record = HARNESS / "efa.json"
    return {"efa": json.loads(record.read_text(encoding="utf-8"))} if record.is_file() else {}


def write_records(image: str, device: str) -> None:
    """Write the constraints file and the manifest. Effects: two files in /opt/muster."""
    # With a base that brought torch these are the base's folders, too.
    venv = versions(json.loads(TORCH.read_text(encoding="utf-8"))["folders"])
    lines = [
        f"{name}=={version}\n"
        for name, version in venv.items()
        if name.lower() not in UNCONSTRAINED
    ]
    (HARNESS / "constraints.txt").write_text("".join(lines), encoding="utf-8")
    manifest = {
        "image": image,
        "device": device,
        **cuda(),
        **efa(),
        "versions": {"muster": venv["muster"], "python": platform.python_version(), **venv},
        "harness": versions([str(packages(HARNESS))]),
    }
    (HARNESS / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def main(image: str, device: str) -> int:
    """Install the wheels that lie beside this file. Raises CalledProcessError, ValueError. Effects: as above."""
    here = Path(__file__).parent
    (wheel,), (benchmark,) = here.glob("muster-*.whl"), here.glob("muster_perf-*.whl")
    install(wheel)
    share()
    install_benchmark(benchmark)
    write_commands()
    write_records(image, device)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
