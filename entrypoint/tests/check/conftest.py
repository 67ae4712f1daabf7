"""What the tests of single checks share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from muster.check.finding import Finding, Here
from muster.check.registry import CHECKS
from muster.settings import read_settings


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    """Return the folder in which a test's own /proc, /sys and /dev are."""
    for name in ("proc", "sys", "dev"):
        (tmp_path / "roots" / name).mkdir(parents=True)
    return tmp_path / "roots"


@pytest.fixture
def look(make_job, roots) -> Callable[..., Finding]:
    """Return a function that looks at a host by one check of the registry."""

    def run(name: str, job=None, nproc: int = 1, env=None, settings=None, **places: str) -> Finding:
        (check,) = [one for one in CHECKS if one.name == name]
        known = {part: str(roots / part) for part in ("proc", "sys", "dev")}
        here = Here(
            job or make_job(),
            read_settings(settings or {}),
            env or {},
            nproc,
            check.level,
            **(known | places),
        )
        return check.look(here)

    return run


@pytest.fixture
def put(roots) -> Callable[[str, str], Path]:
    """Return a function that writes a file below the faked roots, such as proc/meminfo."""

    def write(name: str, text: str) -> Path:
        path = roots / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write
