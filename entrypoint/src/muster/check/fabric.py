"""What this host shows of EFA. Effects: looks at /sys, /dev and limits, runs fi_info where there are devices."""

from __future__ import annotations

import os
import re
import resource
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.check.evidence import once
from muster.check.finding import Here
from muster.check.libraries import cached_libraries, find_library, loader_cache
from muster.check.reading import names, text
from muster.plan.instances import read_instances

_AMAZON, _EFA = "0x1d0f", "0xefa"
LOCKED = 16 * 2**30
"""Bytes that a process must be allowed to lock for a fabric's buffers."""
PLUGINS = ("libnccl-net-ofi.so", "libnccl-net.so", "libnccl-net-aws-ofi.so")
"""The first is the file since EFA's installer 1.44, the second the name that NCCL asks for by itself."""
_FI_INFO = "/opt/amazon/efa/bin/fi_info"
_ANSWER_S = 10.0
_PROVIDER = re.compile(r"^\s*provider: (?P<name>\S+)$")
_DOMAIN = re.compile(r"^\s*domain: (?P<name>\S+?)(?:-rdm|-dgrm)?$")


@dataclass(frozen=True)
class Fabric:
    """EFA as this host has it."""

    devices: tuple[str, ...]
    """Names in /sys/class/infiniband, by vendor and device and not by name."""
    expected: int | None
    """Of this instance; None where that isn't known."""
    nodes: int = 0
    """Device files in /dev/infiniband that programs open."""
    offered: int | None = None
    """Devices that libfabric offers; None where it wasn't asked."""
    plugin: str = ""
    """The file that NCCL would load; empty for none."""
    locked: int = -1
    """Bytes that a process may lock in memory; -1 for any number."""


def devices(here: Here) -> tuple[str, ...]:
    """This host's EFA devices, looked for once."""
    return once(here, "efa.devices", lambda: efa_devices(here.sys))


def fabric(here: Here) -> Fabric:
    """All that is known of EFA here, found out once."""
    return once(here, "efa.fabric", lambda: _look(here))


def efa_devices(sys: str) -> tuple[str, ...]:
    """EFA devices below /sys; ml.p6-b200 has others beside them."""
    folder = f"{sys}/class/infiniband"
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return ()
    return tuple(
        name
        for name in names
        if text(f"{folder}/{name}/device/vendor").strip() == _AMAZON
        and text(f"{folder}/{name}/device/device").strip().startswith(_EFA)
    )


def offered_devices(text: str) -> int:
    """EFA devices in what `fi_info -p efa` prints. Pure.

    Each comes several times: for datagrams, and in newer versions as efa and as efa-direct.
    """
    found: dict[str, None] = {}
    efa = False
    for line in text.splitlines():
        if provider := _PROVIDER.match(line):
            efa = provider["name"].startswith("efa")
        domain = _DOMAIN.match(line)
        if domain and efa:
            found[domain["name"]] = None
    return len(found)


def expected_devices(instance_type: str, table: Mapping[str, object]) -> int | None:
    """Those that an instance has; None where that isn't known. Pure."""
    counts = table.get("efa")
    count = counts.get(instance_type) if isinstance(counts, dict) else None
    return count if isinstance(count, int) else None


def _look(here: Here) -> Fabric:
    found = devices(here)
    mine = here.job.machine.gpus or found or here.settings.efa == "require"
    # Without GPUs nothing here would use it, and most jobs need not wait for the table.
    expected = expected_devices(here.job.instance_type, read_instances()) if mine else None
    if not found:
        return Fabric((), expected, plugin=_plugin(here) if mine else "")
    return Fabric(
        found,
        expected,
        nodes=sum(name.startswith("uverbs") for name in names(f"{here.dev}/infiniband")),
        offered=_ask_libfabric(here.env),
        plugin=_plugin(here),
        locked=resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
    )


def _plugin(here: Here) -> str:
    wanted = here.env.get("NCCL_NET_PLUGIN", "")
    if wanted.startswith("/"):
        return wanted if os.path.exists(wanted) else ""
    names: Sequence[str] = PLUGINS
    if wanted and wanted != "none":
        names = (wanted, f"libnccl-net-{wanted}.so")
    found = find_library(names, cached_libraries(loader_cache() or ""), here.env)
    return found[0] if found and wanted != "none" else ""


def _ask_libfabric(env: Mapping[str, str]) -> int | None:
    program = shutil.which("fi_info", path=env.get("PATH"))
    program = program or (_FI_INFO if os.path.exists(_FI_INFO) else None)
    if program is None:
        return None
    import subprocess  # noqa: PLC0415  (10 ms, for EFA hosts)

    try:
        done = subprocess.run(
            [program, "-p", "efa"],
            env=env,
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    # It ends with an error, and prints nothing, where there is none.
    return offered_devices(done.stdout)
