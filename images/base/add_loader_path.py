"""Puts torch's own NCCL, and CUDA's runtime for EFA's plugin, on the loader's path: an image has one of each."""

from __future__ import annotations

import subprocess
from pathlib import Path

PYTHON = "/opt/venv/bin/python"
FOLDERS = "import sys; print(chr(10).join(sys.path))"
LINKS = Path("/opt/muster/lib")
CONF = Path("/etc/ld.so.conf.d/muster.conf")


def main() -> int:
    """Write the loader's configuration; nothing to do without CUDA. Effects: links, ldconfig."""
    listed = subprocess.run([PYTHON, "-c", FOLDERS], check=True, stdout=subprocess.PIPE, text=True)
    folders = [Path(line, "nvidia") for line in listed.stdout.splitlines() if line]
    libraries = [path for folder in folders for path in folder.glob("**/lib*.so.*")]
    wanted = {"libnccl.so": "libnccl.so.2", "libcudart.so": "libcudart.so.1[23]"}
    found = {
        plain: [path for path in libraries if path.match(name)] for plain, name in wanted.items()
    }
    if not any(found.values()):
        return 0
    LINKS.mkdir(parents=True, exist_ok=True)
    for plain, paths in found.items():
        for path in paths:
            # The folders of the wheels hold cuBLAS and more, which stay torch's own business. EFA's plugin opens
            # libcudart by its plain name, as an installed CUDA toolkit would have it.
            for name in (plain, path.name):
                (LINKS / name).unlink(missing_ok=True)
                (LINKS / name).symlink_to(path)
    CONF.write_text(f"{LINKS}\n", encoding="utf-8")
    subprocess.run(["ldconfig"], check=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
