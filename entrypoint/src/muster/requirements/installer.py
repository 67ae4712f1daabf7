"""pip or uv as argv and environment. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from muster.requirements.packages import Found
from muster.requirements.request import Request

RETRIES, TIMEOUT_S = 2, 5
"""Where the user says nothing: an index out of reach is told in seconds, not in minutes."""
_PIP = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; import runpy; "
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)
"""`python -m pip` would take a types.py in the code folder for Python's own."""


@dataclass(frozen=True)
class Tool:
    """What installs, and into which Python."""

    python: str
    uv: str = ""
    """uv's path; empty for pip."""

    @property
    def name(self) -> str:
        return "uv" if self.uv else "pip"


def commands(
    tool: Tool, request: Request, found: Found, constraints: str
) -> tuple[tuple[str, ...], ...]:
    """The commands, one after the other.

    Args:
        tool: what installs.
        request: what.
        found: what is there, and pip's settings.
        constraints: a file; empty for none.
    """
    start = _uv(tool) if tool.uv else _pip(tool, found)
    if request.wheels:
        start += ("--no-index", "--find-links", request.wheels)
    if constraints:
        start += ("--constraint", constraints)
    file = ("--requirement", request.file) if request.file else ()
    project = (request.project,) if request.project else ()
    if file and project and found.hashes:
        # With hashes every package has to have one, and a folder has none.
        return ((*start, *file), (*start, "--no-deps", *project))
    return ((*start, *file, *project),)


def _pip(tool: Tool, found: Found) -> tuple[str, ...]:
    quiet = ("--no-input", "--disable-pip-version-check", "--no-color", "--progress-bar", "off")
    limits: tuple[str, ...] = ()
    if "retries" not in found.config:
        limits += ("--retries", str(RETRIES))
    if not {"timeout", "default-timeout"} & set(found.config):
        limits += ("--timeout", str(TIMEOUT_S))
    return (tool.python, "-c", _PIP, "install", *quiet, *limits)


def _uv(tool: Tool) -> tuple[str, ...]:
    return (tool.uv, "pip", "install", "--python", tool.python, "--no-progress", "--color", "never")


def environment(
    inherited: Mapping[str, str], index: str = "", warm_cache: str | None = None
) -> dict[str, str]:
    """The variables of the installer: the user's own, and defaults for what they leave open.

    Args:
        inherited: the job's.
        index: the URL of an index, with its token; a variable is not seen by other users.
        warm_cache: a folder that outlives the job; empty or None for none.
    """
    env = {name: text for name, text in inherited.items() if name != "PIP_QUIET"}
    defaults = {
        "PYTHONUNBUFFERED": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "UV_HTTP_TIMEOUT": str(TIMEOUT_S),
        "UV_HTTP_RETRIES": str(RETRIES),
        # pip's time limit ends no search for a name: where no name server answers, that takes a minute.
        "RES_OPTIONS": "timeout:2 attempts:2",
    }
    if warm_cache:
        defaults["PIP_CACHE_DIR"] = os.path.join(warm_cache, "pip")
        defaults["UV_CACHE_DIR"] = os.path.join(warm_cache, "uv")
    env = {**defaults, **env}
    if "PIP_CACHE_DIR" in env:
        env.pop("PIP_NO_CACHE_DIR", None)  # The image's own setting: it would win.
    if index:
        env |= {"PIP_INDEX_URL": index, "UV_DEFAULT_INDEX": index}
    return env
