"""What a plan must look up on this host. Effects: searches PATH, tries a port, asks mpirun."""

from __future__ import annotations

import errno
import re
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.contract.groups import make_groups
from muster.contract.machine import network_of
from muster.model import Job
from muster.plan.instances import read_instances
from muster.settings import Settings


@dataclass(frozen=True)
class Facts:
    """`torchrun` is None when it is not on PATH; `shim` is the argv that starts a rank."""

    torchrun: str | None
    shim: tuple[str, ...]
    master_port: int
    port_trouble: str = ""
    """Why the port on which the ranks meet can't be used; a plan that needs it says so."""
    nprocs: tuple[int, ...] = ()
    """Ranks of each host of the world, where the hosts have told each other."""
    mpirun: str | None = None
    """Open MPI's, where the job may want it; and its major version."""
    mpi_major: int | None = None
    cidr: str = ""
    """The network of the interface between the hosts: its names may differ, its network does not."""
    horovodrun: str | None = None
    interface: str = ""
    """Between the hosts."""
    smddp_found: bool = False
    """Whether the script's Python has SageMaker's data parallel library, where the job asks for it."""
    smddprun: str | None = None
    smddp_types: tuple[str, ...] = ()
    """Instances that the library supports."""
    rsh: tuple[str, ...] = ()
    """The argv of what starts a program on another host."""


_ANSWER_S = 30.0
"""What a program may take to say who it is."""
_claims: dict[int, socket.socket] = {}
"""The ports that this process keeps until its end."""


def look_up_facts(
    job: Job, settings: Settings, env: Mapping[str, str], *, claim: bool = True
) -> Facts:
    """The facts of this host.

    Args:
        job: the job.
        settings: the harness's settings.
        env: the container's environment.
        claim: whether the job is about to run: its port is then kept from other harnesses.
    """
    port, trouble = _master_port(job, settings, claim=claim)
    mpirun = shutil.which("mpirun", path=env.get("PATH")) if _may_want_mpi(job, settings) else None
    return Facts(
        torchrun=shutil.which("torchrun", path=env.get("PATH")),
        # Isolated: neither the user's PYTHONPATH nor a queue.py beside the script may
        # shadow what the shim imports.
        shim=(sys.executable, "-I", "-m", "muster.launch.shim", "--"),
        master_port=port,
        port_trouble=trouble,
        mpirun=mpirun,
        mpi_major=_mpi_major(mpirun, env) if mpirun else None,
        cidr=network_of(job.interface) if mpirun and job.interface else "",
        horovodrun=shutil.which("horovodrun", path=env.get("PATH")),
        interface=job.interface,
        **_look_for_smddp(job, settings, env),
        rsh=(sys.executable, "-I", "-m", "muster.launch.rsh"),
    )


def _look_for_smddp(job: Job, settings: Settings, env: Mapping[str, str]) -> dict[str, Any]:
    """Its facts, where the job asks for it."""
    if not any("dataparallel" in key or "pytorch_ddp" in key for key in job.reserved):
        return {}
    path = env.get("PATH")
    python = settings.python or shutil.which("python3", path=path) or "python"
    look = (
        "import importlib.util as u, sys; sys.exit(not u.find_spec('smdistributed.dataparallel'))"
    )
    return {
        "smddp_found": _ask([python, "-c", look], env) is not None,
        "smddprun": shutil.which("smddprun", path=path),
        "smddp_types": _smddp_types(),
    }


def _smddp_types() -> tuple[str, ...]:
    """The instances that the library supports; none on Python 3.10, for which there is no such library."""
    families = read_instances().get("families", ())
    return tuple(name for family in families for name in family.get("smddp", ()))


def _ask(command: list[str], env: Mapping[str, str]) -> str | None:
    """What a program prints; None where it fails, is missing, or takes too long."""
    import subprocess  # noqa: PLC0415  (10 ms, for few jobs)

    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=_ANSWER_S, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    return done.stdout


def _may_want_mpi(job: Job, settings: Settings) -> bool:
    """Whether anything in the job speaks of MPI: asking mpirun who it is takes 30 ms."""
    asked = any("mpi" in key or "parallel" in key or "ddp" in key for key in job.reserved)
    return asked or "mpirun" in (settings.launcher, settings.default_launcher)


def _mpi_major(mpirun: str, env: Mapping[str, str]) -> int | None:
    """Open MPI's major version; None for another MPI."""
    found = re.match(r"mpirun \(Open MPI\) (\d+)\.", _ask([mpirun, "--version"], env) or "")
    return int(found[1]) if found else None


def _master_port(job: Job, settings: Settings, *, claim: bool) -> tuple[int, str]:
    """The port, and what is wrong with it."""
    wanted, world = settings.master_port, make_groups(job).world
    if job.current_host != world[0]:
        return wanted, ""
    trouble = _trouble(wanted)
    if not trouble and claim and not _claim(wanted):
        trouble = "is reserved by another muster on this machine"
    if not trouble or (len(world) > 1 and settings.exec_only):
        # With MUSTER_EXEC=1 the other hosts know nothing but the wanted port.
        return wanted, trouble
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1]), ""


def _trouble(port: int) -> str:
    with socket.socket() as probe:
        # As the store itself binds: a port in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            return "is taken" if taken else f"can't be used: {error.strerror}"
    return ""


def _claim(port: int) -> bool:
    """Keeps the port from other harnesses, until this one ends. False when one of them has it.

    The launcher listens a second or two from now: two jobs that start together would both find
    the port free. A socket with a name in the abstract namespace lives in the same network
    namespace as the port, and goes with its process (https://man7.org/linux/man-pages/man7/unix.7.html).
    """
    if port in _claims:
        return True
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0muster-master-port-{port}")
    except OSError:
        mark.close()
        return False
    _claims[port] = mark
    return True
