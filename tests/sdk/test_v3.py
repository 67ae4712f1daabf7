"""SageMaker's SDK v3, unmodified: ModelTrainer in LOCAL_CONTAINER mode, without AWS."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.docker

SCRIPT = Path(__file__).parent / "scripts" / "model_trainer_v3.py"


@pytest.mark.parametrize(
    ("form", "runs_muster"),
    [
        ("no-source-code", True),
        ("entry-script", False),
        ("command", True),
        ("torchrun", False),
    ],
)
def test_model_trainer_trains(run_sdk, accuracy, form, runs_muster, image, digits, root):
    """Each form trains. Without source_code the image's own entry point runs; with it the SDK's
    script does, and muster only where `command` names it."""
    said = run_sdk("sdk-v3", SCRIPT, image, form, root / "examples", digits)
    assert accuracy(said) > 0.95
    assert ("[muster algo-1] muster 0.1.0" in said) == runs_muster
