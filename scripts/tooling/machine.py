"""What the scripts need to know of the machine they run on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

OS_RELEASE = Path("/etc/os-release")


class ScriptError(Exception):
    """The script can't go on; the message says what to do about it."""


def say(text: str) -> None:
    """Print one line for the person who watches. Effects: stderr."""
    print(text, file=sys.stderr, flush=True)


def ask(*argv: str, timeout: float = 20.0) -> str | None:
    """Return a command's stripped output, or None where it fails, is missing, or takes too long.

    Effects: runs the command.
    """
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def act(*argv: str, timeout: float, env: dict[str, str] | None = None, quiet: bool = False) -> None:
    """Run a command that must succeed, its output on stderr (with `quiet`, only when it fails).

    Raises ScriptError when it fails, is missing or takes too long. Effects: runs the command.
    """
    output = subprocess.PIPE if quiet else sys.stderr
    merged = {**os.environ, **(env or {})}
    try:
        done = subprocess.run(
            argv,
            timeout=timeout,
            check=False,
            env=merged,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        raise ScriptError(f"{argv[0]} can't be run: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise ScriptError(f"{' '.join(argv[:3])} took longer than {timeout:.0f} s") from error
    if done.returncode != 0:
        tail = (done.stdout or b"").decode(errors="replace")[-3000:]
        raise ScriptError(
            f"{' '.join(argv[:3])} ended with status {done.returncode}\n{tail}".rstrip()
        )


def os_release() -> dict[str, str]:
    """Return the fields of /etc/os-release; empty where there is none. Effects: reads it."""
    try:
        lines = OS_RELEASE.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {key: value.strip().strip('"') for key, value in pairs}


def debian_mirror(codename: str) -> str:
    """Return the address from which this machine takes Debian's main suite.

    apt itself is asked, so that every format of its sources is understood.
    Raises ScriptError where apt has no such source. Effects: runs apt-get.
    """
    fields = "$(RELEASE)|$(COMPONENT)|$(REPO_URI)"
    listed = ask("apt-get", "indextargets", "--format", fields, "Created-By: Packages") or ""
    for line in listed.splitlines():
        release, component, address = line.split("|", 2)
        if release == codename and component == "main":
            return address
    raise ScriptError(f"apt has no source for Debian {codename} main; see sources.list(5)")
