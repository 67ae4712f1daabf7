"""The payloads in tests/sdk/payloads are what the SDKs, unmodified, send today."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WRITE = "MUSTER_TEST_WRITE_PAYLOADS"


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_the_sdk_sends_what_was_captured(run_under, tmp_path, version):
    """Every form of a job gives the committed request, to the byte, and no form is missing. What
    the SDK is known to refuse, it refuses."""
    now, committed = tmp_path / version, HERE / "payloads" / version
    now.mkdir()
    run_under(f"sdk-{version}", HERE / "scripts" / f"capture_{version}.py", now)
    if os.environ.get(WRITE):
        shutil.rmtree(committed, ignore_errors=True)
        shutil.copytree(now, committed)
    assert _texts(now) == _texts(committed), f"{WRITE}=1 writes them anew"


def _texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
