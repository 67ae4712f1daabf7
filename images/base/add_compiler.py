"""Installs what compiling at run time needs: Triton's launchers (gcc), inductor on CPU and users' sdists (g++)."""

from __future__ import annotations

import subprocess
import sys

import apt_install

PYTHON = "/opt/venv/bin/python"
HEADERS = "import os, sysconfig; print(os.path.exists(sysconfig.get_path('include') + '/Python.h'))"
VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def ask(program: str) -> str:
    """Return what a line of Python prints. Raises CalledProcessError. Effects: runs the user's Python."""
    done = subprocess.run([PYTHON, "-c", program], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def packages(compiler: str) -> list[str]:
    """Return Debian's packages for `gcc` or `g++`; nothing for an empty name. Effects: asks the user's Python."""
    if not compiler:
        return []
    # libc6-dev is only recommended by gcc, and without it nothing links.
    headers = [] if ask(HEADERS) == "True" else [f"libpython{ask(VERSION)}-dev"]
    return [compiler, "libc6-dev", *headers]


if __name__ == "__main__":
    raise SystemExit(apt_install.main(packages(sys.argv[1])))
