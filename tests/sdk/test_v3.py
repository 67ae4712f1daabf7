"""SageMaker's SDK v3, unmodified: ModelTrainer in LOCAL_CONTAINER mode, without AWS."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine import MPI_IMAGE

# One after the other: `run_sdk` says why.
pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("sagemaker-local")]

SCRIPT = Path(__file__).parent / "scripts" / "model_trainer_v3.py"


@pytest.mark.parametrize(
    ("form", "instances", "runs_muster"),
    [
        # Its local mode names an interface, ethwe, that the containers don't have.
        ("no-source-code", 2, True),
        ("entry-script", 1, False),
        ("command", 2, True),
        ("torchrun", 1, False),
    ],
)
def test_model_trainer_trains(run_sdk, accuracy, form, instances, runs_muster, image, digits, root):
    """Each form trains. Without source_code the image's own entry point runs; with it the SDK's
    script does, and muster only where `command` names it."""
    said = run_sdk("sdk-v3", SCRIPT, image, form, root / "examples", digits, instances)
    assert accuracy(said) > 0.95
    for number in range(1, instances + 1):
        assert (f"[muster algo-{number}] muster 0.1.0" in said) == runs_muster


def test_model_trainer_with_muster_as_its_distribution(run_sdk, accuracy, digits, root):
    """distributed=Muster(launcher="mpirun") below the SDK's own script: two hosts, four ranks.

    AWS's own MPI driver starts processes_per_host ranks in all, on the first host (contract.md 7).
    """
    said = run_sdk("sdk-v3", SCRIPT, MPI_IMAGE, "muster", root / "examples", digits, 2)
    assert accuracy(said) > 0.9
    assert "launcher mpirun (MUSTER_LAUNCHER)" in said
    assert "world size 4" in said
    assert "--mca btl_tcp_if_exclude lo,docker0" in said
    assert "btl_tcp_if_include" not in said
