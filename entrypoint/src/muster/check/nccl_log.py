"""Which network NCCL has picked, from its own log (NCCL_DEBUG=INFO). Pure.

Wordings have changed: aws-ofi-nccl up to 1.6 writes "Selected Provider", newer ones "Selected provider is efa, fabric is
efa-direct"; NCCL up to 2.4 has no "Using network", and its network's name was "AWS Libfabric" before it was "Libfabric".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from muster.check.finding import Finding, passed, unknown

_NETWORK = re.compile(r"NCCL INFO Using network (?P<name>.+?)\s*$", re.MULTILINE)
_OLD_NETWORK = re.compile(r"NCCL INFO NET/(?P<name>Socket|IB)\s*:\s*Using \[", re.MULTILINE)
_PROVIDER = re.compile(
    r"NET/OFI Selected [Pp]rovider is (?P<name>[\w;-]+)(?:, fabric is \S+)?(?: \(found (?P<nics>\d+) nics\))?"
)
_PLUGIN = re.compile(r"NET/OFI (?:Initializing|Using) aws-ofi-nccl (?P<version>\S+)")
_NCCL = re.compile(r"NCCL version (?P<version>\d+(?:\.\d+)+)")
_MISSING = re.compile(
    r"No plugin found|Could not find: \S*|Plugin load \(\S+\) returned|\S*libnccl-net\S*: cannot open shared object"
)
_CHANNEL = re.compile(r"via NET/(?P<name>[^/\n]+)/\d+(?P<direct>/GDRDMA)?")
_TUNER = re.compile(r"[Tt]uner is chosen for platform: (?P<platform>\S+)")
_DIRECT = "efa"
_REMEDY = (
    "Look whether the plugin is on the loader's path (`ldconfig -p | grep nccl-net`), whether /dev/infiniband is in the "
    "container, and whether FI_PROVIDER, NCCL_NET or NCCL_NET_PLUGIN are set."
)


@dataclass(frozen=True)
class NcclNetwork:
    """What the log says; empty where it says nothing."""

    networks: tuple[str, ...] = ()
    """As NCCL calls them, all that its ranks have picked: AWS Libfabric, Libfabric, Socket, IB."""
    providers: tuple[str, ...] = ()
    """Of libfabric: efa, tcp, sockets."""
    nics: int = 0
    """Devices that the plugin has found."""
    direct: bool = False
    """Whether a channel goes from GPU memory to the device (GDRDMA)."""
    plugin: str = ""
    """The version of aws-ofi-nccl."""
    plugin_missing: bool = False
    """Whether NCCL says that it found no plugin."""
    nccl: str = ""
    tuner: str = ""
    """The platform for which the plugin's tuner has tables."""

    @property
    def is_efa(self) -> bool:
        """Whether every rank that has said something goes over EFA."""
        plugin = all("libfabric" in name.lower() for name in self.networks)
        return bool(self.providers) and plugin and set(self.providers) == {_DIRECT}


def read_log(text: str) -> NcclNetwork:
    """What a log says of the network; those of several ranks may be one text, with any prefix on their lines."""
    networks = _all(_NETWORK, text) or _all(_OLD_NETWORK, text)
    networks = networks or tuple(dict.fromkeys(m["name"] for m in _CHANNEL.finditer(text)))
    counts = [int(found["nics"]) for found in _PROVIDER.finditer(text) if found["nics"]]
    return NcclNetwork(
        networks=networks,
        providers=_all(_PROVIDER, text),
        nics=min(counts, default=0),
        direct=any(found["direct"] for found in _CHANNEL.finditer(text)),
        plugin=_first(_PLUGIN, "version", text),
        plugin_missing=bool(_MISSING.search(text)),
        nccl=_first(_NCCL, "version", text),
        tuner=_first(_TUNER, "platform", text),
    )


def judge_network(found: NcclNetwork, *, wanted: bool) -> Finding:
    """Whether NCCL uses the network that it should.

    Args:
        found: of the log of ranks on several hosts.
        wanted: whether EFA is expected here.
    """
    if not found.networks and not found.providers:
        return unknown("NCCL's log names no network")
    evidence = "NCCL uses " + _listed(found)
    if found.is_efa or not wanted:
        return passed(evidence)
    missing = "; it found no plugin for EFA" if found.plugin_missing else ""
    return Finding("FAIL", f"{evidence}, not EFA{missing}", _REMEDY)


def _listed(found: NcclNetwork) -> str:
    parts = [", ".join(found.networks) or "the plugin"]
    if found.providers:
        count = f" with {found.nics} devices" if found.nics else ""
        parts.append(f"provider {', '.join(found.providers)}{count}")
    if found.plugin:
        parts.append(f"aws-ofi-nccl {found.plugin}")
    return "; ".join([*parts, *(["GPUDirect"] if found.direct else [])])


def _all(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found["name"] for found in pattern.finditer(text)))


def _first(pattern: re.Pattern[str], group: str, text: str) -> str:
    found = pattern.search(text)
    return found[group] if found else ""
