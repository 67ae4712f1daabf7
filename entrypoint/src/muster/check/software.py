"""What the ranks will run on: versions, one NCCL, variables that do no harm. Effects: looks at files, runs ldconfig."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from muster.check import packages
from muster.check.fabric import devices
from muster.check.finding import Check, Finding, Here, by_all, passed, skipped, unknown
from muster.check.libraries import Loaded, cached_libraries, find_library, loader_cache
from muster.check.remedies import SAME_SOFTWARE
from muster.check.variables import Surroundings, judge_variables, missing_files

_ORDER = ("torch", "CUDA", "NCCL", "plugin", "libfabric", "MPI", "horovod", "smddp", "driver")
_ONE_NCCL = (
    "Remove one: the image's own is torch's. LD_LIBRARY_PATH comes before it; "
    "`ldconfig -p | grep libnccl` shows the others."
)


def _versions(here: Here) -> Finding:
    return judge_versions(packages.versions(here), packages.script_folders(here))


def judge_versions(found: Mapping[str, str], folders: Sequence[str]) -> Finding:
    """What there is, in one line.

    Args:
        found: versions by name.
        folders: where the script's Python has its packages.
    """
    known = [f"{name} {found[name]}" for name in _ORDER if name in found]
    if known:
        return passed(", ".join(known))
    if not folders:
        return unknown("where the script's Python has its packages is not known")
    return skipped("the script's Python has no torch, and nothing else that is looked for")


def _one_nccl(here: Here) -> Finding:
    if packages.versions(here).get("torch", "").endswith("+cpu"):
        return skipped("torch is a build without CUDA")
    own = packages.nccl_files(here)
    if not own and not here.job.machine.gpus:
        return skipped("no NCCL beside the script's packages, and no GPU")
    cache = loader_cache()
    if cache is None:
        return unknown("there is no ldconfig that would tell what the loader finds")
    found = find_library(("libnccl.so.2",), cached_libraries(cache), here.env)
    return judge_nccl(own, found)


def judge_nccl(own: Sequence[str], found: Sequence[str]) -> Finding:
    """Whether there is one NCCL.

    Args:
        own: files beside torch, which a build from PyPI loads unless LD_LIBRARY_PATH names another one.
        found: files that the loader finds, the first wins.
    """
    files = tuple(dict.fromkeys([*own, *found]))
    if not files:
        return unknown("no libnccl.so.2 is beside torch or on the loader's path")
    if len(files) == 1:
        return passed(f"one NCCL: {files[0]}")
    return Finding("WARN", f"{len(files)} NCCLs: {', '.join(files)}", _ONE_NCCL)


def judge_loaded(loaded: Loaded) -> Finding:
    """Whether a process has loaded one of each library, by its own /proc/PID/maps (libraries.loaded_libraries)."""
    if not loaded.paths:
        return unknown("the process has loaded none of the libraries")
    if twice := loaded.twice:
        evidence = "; ".join(f"{name}: {', '.join(loaded.paths[name])}" for name in twice)
        return Finding("FAIL", f"loaded twice: {evidence}", _ONE_NCCL)
    named = [f"{name} from {os.path.dirname(paths[0])}" for name, paths in loaded.paths.items()]
    return passed(", ".join(named))


def _variables(here: Here) -> Finding:
    around = Surroundings(
        interfaces=here.job.machine.interfaces,
        efa=bool(devices(here)),
        missing=missing_files(here.env),
    )
    return judge_variables(here.env, around)


CHECKS = (
    Check(
        "software.versions",
        "fast",
        "Versions of torch, CUDA, NCCL, EFA's plugin, MPI, Horovod and the driver, from files",
        _versions,
        limits="Told only; UNKNOWN where the packages are not found",
    ),
    Check(
        "software.same",
        "fast",
        "The same versions on all hosts",
        by_all,
        limits="FAIL where torch, NCCL or EFA's plugin differ, WARN for the others",
        source="NCCL hangs or corrupts between versions; superbench and Google's configcheck compare in the same way",
        together=True,
        remedy=SAME_SOFTWARE,
    ),
    Check(
        "software.nccl",
        "fast",
        "One libnccl.so.2 for torch, Horovod and the plugin",
        _one_nccl,
        limits="WARN where there are several files",
        source="pytorch/pytorch#119932, NVIDIA/nccl#1171",
        remedy=_ONE_NCCL,
    ),
    Check(
        "software.variables",
        "fast",
        "Obsolete, conflicting or impossible variables: NCCL_*, TORCH_NCCL_*, FI_*, RDMAV_*",
        _variables,
        limits="WARN for each that check/variables.py lists, for interfaces and files that are not there",
        source="efa-cheatsheet.md of awsome-distributed-training; NCCL's page on its variables",
        remedy="Leave them out of the job's environment.",
    ),
)
