"""Which libraries the loader finds, and which a process has really loaded. Effects: looks at files, runs ldconfig.

Two NCCLs on a host are two answers to one question: torch, Horovod and EFA's plugin must have the same one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_MAPPED = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+\s+(?P<path>/.*?)(?: \(deleted\))?$")
_CACHED = re.compile(r"^\s*(?P<name>\S+) \(.*\) => (?P<path>\S+)$", re.MULTILINE)
_LDCONFIG = ("/sbin/ldconfig", "/usr/sbin/ldconfig")
_WATCHED = ("libnccl", "libcudart", "libfabric", "libmpi", "libtorch_cuda", "libcuda")
"""Libraries of which a process should have one each; the stem up to `.so`."""


@dataclass(frozen=True)
class Loaded:
    """Libraries by the stem of their name."""

    paths: Mapping[str, tuple[str, ...]]

    @property
    def twice(self) -> tuple[str, ...]:
        """Those of which there is more than one file."""
        return tuple(name for name, paths in self.paths.items() if len(paths) > 1)


def loaded_libraries(maps: str, stems: Sequence[str] = _WATCHED) -> Loaded:
    """The libraries that a process has mapped. Pure.

    Args:
        maps: the text of /proc/PID/maps.
        stems: names up to `.so`: libnccl is libnccl.so.2, and not libnccl-net.so.
    """
    found: dict[str, dict[str, None]] = {}
    for line in maps.splitlines():
        mapped = _MAPPED.match(line)
        name = os.path.basename(mapped["path"]) if mapped else ""
        stem = name.partition(".so")[0]
        if mapped and ".so" in name and stem in stems:
            found.setdefault(stem, {})[mapped["path"]] = None
    return Loaded({stem: tuple(paths) for stem, paths in found.items()})


def cached_libraries(text: str) -> dict[str, tuple[str, ...]]:
    """Paths by library, the loader's order. Pure.

    Args:
        text: what `ldconfig -p` prints.
    """
    found: dict[str, list[str]] = {}
    for line in _CACHED.finditer(text):
        found.setdefault(line["name"], []).append(line["path"])
    return {name: tuple(paths) for name, paths in found.items()}


def loader_cache() -> str | None:
    """What `ldconfig -p` prints; None where there is none."""
    program = next((path for path in _LDCONFIG if os.path.exists(path)), None)
    if program is None:
        return None
    import subprocess  # noqa: PLC0415  (10 ms, for GPU hosts)

    try:
        done = subprocess.run(
            [program, "-p"], capture_output=True, text=True, timeout=5, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def find_library(
    names: Sequence[str], cache: Mapping[str, Sequence[str]], env: Mapping[str, str]
) -> tuple[str, ...]:
    """Every file that the loader would take for one of `names`, the best first, each once.

    Args:
        names: such as libnccl.so.2.
        cache: of `cached_libraries`.
        env: with LD_LIBRARY_PATH, whose folders come before the cache.
    """
    folders = [folder for folder in env.get("LD_LIBRARY_PATH", "").split(os.pathsep) if folder]
    paths = [os.path.join(folder, name) for folder in folders for name in names]
    paths = [path for path in paths if os.path.exists(path)]
    paths += [path for name in names for path in cache.get(name, ())]
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths))
