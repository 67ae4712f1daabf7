"""scripts/engine: a Docker engine with buildx on this machine, started if none answers."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tooling.machine import ScriptError, act, ask, debian_mirror, os_release, say

PACKAGES = ("docker.io", "docker-cli", "docker-buildx", "docker-compose", "iptables")
# Benchmark addresses (RFC 2544): no office, home or cloud network routes them, so containers shadow nobody.
POOL = "base=198.19.0.0/16,size=24"
DAEMON = ("dockerd", "--bip", "198.18.0.1/24", "--default-address-pool", POOL)
LOG = Path("/var/log/muster-dockerd.log")
SOURCES = Path("/etc/apt/sources.list.d/muster-engine.sources")
PREFERENCES = Path("/etc/apt/preferences.d/muster-engine")
HOW = "install Docker Engine 24 or newer with buildx 0.13 or newer (https://docs.docker.com/engine/install/) and start it"
START_S = 60.0
SYSTEMD = Path("/run/systemd/system")
PID_FILES = {
    Path("/run/docker.pid"): "dockerd",
    Path("/run/docker/containerd/containerd.pid"): "containerd",
}


def missing() -> list[str]:
    """Return what is missing here, of: engine, buildx. Effects: asks docker."""
    found = {
        "engine": ask("docker", "version", "--format", "{{.Server.Version}}"),
        "buildx": ask("docker", "buildx", "version"),
    }
    return [name for name, answer in found.items() if not answer]


def trixie_files(mirror: str) -> dict[Path, str]:
    """Return the apt files that bring the packages, and nothing else, from Debian 13. Pure.

    Debian 12's own Docker is 20.10 and has no buildx. Priority 1 keeps every other package at Debian 12's version.
    """
    sources = (
        f"Types: deb\nURIs: {mirror}\nSuites: trixie\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )
    preferences = (
        "Package: *\nPin: release n=trixie\nPin-Priority: 1\n\n"
        "Package: docker.io docker-cli docker-buildx docker-compose containerd\nPin: release n=trixie\nPin-Priority: 990\n"
    )
    return {SOURCES: sources, PREFERENCES: preferences}


def install(release: str) -> None:
    """Install the packages from Debian's own mirror. Raises ScriptError. Effects: apt, and two files in /etc/apt on Debian 12."""
    if release == "12":
        for path, text in trixie_files(debian_mirror("bookworm")).items():
            path.write_text(text, encoding="utf-8")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    wait = "DPkg::Lock::Timeout=120"
    act("apt-get", "-o", wait, "-qq", "update", timeout=300, env=quiet, quiet=True)
    act(
        "apt-get",
        "-o",
        wait,
        "-qq",
        "install",
        "-y",
        "--no-install-recommends",
        *PACKAGES,
        timeout=600,
        env=quiet,
        quiet=True,
    )


def drop_stale(pid_files: Mapping[Path, str]) -> None:
    """Remove pid files of daemons that were killed. Effects: files.

    dockerd looks only whether some process has that number, refuses to start if so, and may even end it.
    """
    for path, program in pid_files.items():
        try:
            running = Path(f"/proc/{int(path.read_text())}/comm").read_text().strip()
        except (OSError, ValueError):
            running = ""
        if running != program:
            path.unlink(missing_ok=True)


def start() -> None:
    """Start dockerd in a session of its own and wait until it answers.

    Raises ScriptError when it ends or does not answer in time. Effects: a daemon that outlives the caller.
    """
    drop_stale(PID_FILES)
    with LOG.open("ab") as log:
        daemon = subprocess.Popen(
            DAEMON, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if "engine" not in missing():
            return
        if daemon.poll() is not None:
            tail = LOG.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
            raise ScriptError(
                "\n".join(
                    [f"dockerd ended with status {daemon.returncode}; {LOG} ends with:", *tail]
                )
            )
        time.sleep(0.2)
    raise ScriptError(f"dockerd did not answer within {START_S:.0f} s; see {LOG}")


def refusal(lacks: list[str]) -> str | None:
    """Say why this machine gets no engine from us; None where it can. Effects: reads the environment and /etc/os-release."""
    what = " and ".join(lacks)
    if os.environ.get("MUSTER_SETUP_ENGINE") == "0":
        return f"no Docker {what} here, and MUSTER_SETUP_ENGINE=0 says to set up none: {HOW}"
    fields = os_release()
    if fields.get("ID") != "debian" or fields.get("VERSION_ID") not in {"12", "13"}:
        return f"no Docker {what} here, and only Debian 12 and 13 are set up by this script: {HOW}"
    if os.geteuid() != 0:
        return f"no Docker {what} here for this user: run scripts/engine as root, or {HOW}"
    return None


def set_up(lacks: list[str]) -> None:
    """Install what is missing, then start it. Raises ScriptError. Effects: packages, files in /etc/apt, a daemon."""
    release = os_release()["VERSION_ID"]
    if "buildx" in lacks or shutil.which("dockerd") is None:
        pins = (
            f", with {SOURCES} and {PREFERENCES} pinning them to Debian 13"
            if release == "12"
            else ""
        )
        say(
            f"engine: installing {', '.join(PACKAGES)} from Debian{pins} (MUSTER_SETUP_ENGINE=0 prevents it)"
        )
        install(release)
    if "engine" in missing():
        say(
            f"engine: starting dockerd, containers on 198.18.0.0/24 and 198.19.0.0/16, log in {LOG}"
        )
        start()


def ensure() -> None:
    """Make sure that an engine with buildx answers. Raises ScriptError. Effects: as set_up says."""
    lacks = missing()
    if not lacks:
        return
    if reason := refusal(lacks):
        raise ScriptError(reason)
    set_up(lacks)
    if lacks := missing():
        raise ScriptError(f"no Docker {' and '.join(lacks)} after the set-up: {HOW}")


def main() -> int:
    """Do what ensure does, and say so; 0 when an engine answers. Effects: as set_up says."""
    try:
        ensure()
    except (ScriptError, OSError) as error:
        say(f"engine: {error}")
        return 1
    say(f"engine: Docker {ask('docker', 'version', '--format', '{{.Server.Version}}')} answers")
    return 0
