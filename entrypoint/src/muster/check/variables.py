"""Variables of NCCL, torch, libfabric and rdma-core that do harm or do nothing. Pure, but for one look at files.

Advice of 2019 to 2022 lives on in job settings. A row says what is wrong with a variable, for which values, and where that is
written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.check.finding import Finding, passed

_CHEATSHEET = "1.architectures/efa-cheatsheet.md of awsome-distributed-training"
_TORCH = "torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp"
_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"


@dataclass(frozen=True)
class Row:
    """One variable that a job had better not set."""

    name: str
    """With * at its end, all that begin so."""
    why: str
    source: str
    values: tuple[str, ...] = ()
    """Values for which it holds, in lower case; empty for all."""
    efa_only: bool = False
    """Whether it matters only where there is EFA."""

    def fits(self, name: str, value: str, *, efa: bool) -> bool:
        """Whether the row speaks of this variable."""
        same = name.startswith(self.name[:-1]) if self.name.endswith("*") else name == self.name
        return (
            same
            and bool(value)
            and (not self.values or value.lower() in self.values)
            and (efa or not self.efa_only)
        )


def _renamed(*names: str) -> tuple[Row, ...]:
    return tuple(Row(name, f"torch has renamed it: TORCH_{name}", _TORCH) for name in names)


TABLE: tuple[Row, ...] = (
    *_renamed("NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT"),
    *_renamed("NCCL_DESYNC_DEBUG", "NCCL_ENABLE_TIMING"),
    Row("NCCL_MIN_NRINGS", "NCCL 2.5 has renamed it: NCCL_MIN_NCHANNELS", _NCCL),
    Row("NCCL_MAX_NRINGS", "NCCL 2.5 has renamed it: NCCL_MAX_NCHANNELS", _NCCL),
    Row(
        "NCCL_PROTO",
        "only aws-ofi-nccl up to 1.5 needs it; it slows small messages",
        _CHEATSHEET,
        values=("simple",),
    ),
    Row("FI_EFA_USE_DEVICE_RDMA", "libfabric 1.18 and newer don't need it", _CHEATSHEET),
    Row("FI_EFA_ENABLE_SHM_TRANSFER", "it does nothing: on is the default", _CHEATSHEET, ("1",)),
    Row("RDMAV_FORK_SAFE", "on newer kernels it breaks a fork under EFA", _CHEATSHEET),
    Row("RDMAV_*", "not to be used with EFA", _CHEATSHEET),
    Row("FI_PROVIDER", "it leaves EFA out", _CHEATSHEET, ("tcp", "sockets"), efa_only=True),
    Row("NCCL_NET", "it leaves EFA out", _NCCL, ("socket", "ib"), efa_only=True),
    Row("NCCL_NET_PLUGIN", "without a plugin NCCL uses no EFA", _NCCL, ("none",), efa_only=True),
    Row("NCCL_IB_DISABLE", "EFA is no InfiniBand: it does nothing", _NCCL, ("1",), efa_only=True),
)
"""In the order in which they are told."""


@dataclass(frozen=True)
class Surroundings:
    """What a value may speak of."""

    interfaces: tuple[str, ...]
    efa: bool
    missing: tuple[str, ...]
    """Variables that name a file that there is not."""


def harmful(env: Mapping[str, str], around: Surroundings) -> list[str]:
    """What is wrong with the variables, one text each."""
    found = []
    for name in sorted(env):
        rows = [row for row in TABLE if row.fits(name, env[name], efa=around.efa)]
        found += [f"{name}={env[name]}: {row.why}" for row in rows[:1]]
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        if env.get(name) and not names_an_interface(env[name], around.interfaces, name=name):
            here = ", ".join(around.interfaces) or "none"
            found.append(f"{name}={env[name]}: no such interface (there are {here})")
    found += [f"{name}={env[name]}: no such file" for name in around.missing]
    old, new = env.get("NCCL_ASYNC_ERROR_HANDLING"), env.get("TORCH_NCCL_ASYNC_ERROR_HANDLING")
    if old and new and old != new:
        found.append(f"TORCH_NCCL_ASYNC_ERROR_HANDLING={new} and its old name={old} differ")
    return found


def names_an_interface(value: str, interfaces: Sequence[str], *, name: str = "") -> bool:
    """Whether a value leaves at least one interface.

    NCCL takes prefixes with commas; `=` in front makes them whole names, `^` excludes, `^=` both
    (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html). The others take one whole name, Gloo several.
    """
    words = [word.strip() for word in value.lstrip("^=").split(",") if word.strip()]
    if name != "NCCL_SOCKET_IFNAME":
        return all(word in interfaces for word in words)
    exact = value.startswith(("=", "^="))
    fits = [
        any(each == word if exact else each.startswith(word) for word in words)
        for each in interfaces
    ]
    return not all(fits) if value.startswith("^") else any(fits)


def missing_files(env: Mapping[str, str]) -> tuple[str, ...]:
    """Variables that name a file by its path, and there is none. Effects: looks at files."""
    named = ("NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_TOPO_FILE", "NCCL_CONF_FILE")
    return tuple(
        name
        for name in named
        for value in (env.get(name, ""),)
        if re.match(r"[/~]", value) and not os.path.exists(os.path.expanduser(value))
    )


def judge_variables(env: Mapping[str, str], around: Surroundings) -> Finding:
    """The variables that the ranks get from the job or the image."""
    found = harmful(env, around)
    ours = [
        name
        for name in sorted(env)
        if name.startswith(("NCCL_", "TORCH_NCCL_", "FI_", "RDMAV_", "OFI_NCCL_"))
    ]
    if not found:
        return passed(f"set: {', '.join(ours)}" if ours else "none is set")
    names = [text.partition("=")[0] for text in found]
    return Finding(
        "WARN",
        "; ".join(found),
        f"Leave {', '.join(dict.fromkeys(names))} out of the job's environment.",
    )
