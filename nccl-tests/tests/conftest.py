from __future__ import annotations

import subprocess

import pytest
from perf_worlds import BIN, environment, torchrun


@pytest.fixture
def perf():
    """Return a function that runs a benchmark on some ranks, one alone without a launcher."""

    def run(name: str, *flags: str, ranks: int = 2, **env: str) -> subprocess.CompletedProcess[str]:
        command = str(BIN / f"{name}_perf")
        if ranks > 1:
            return torchrun([command, *flags], ranks, env)
        return subprocess.run(
            [command, *flags],
            env=environment(**env),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
