"""SageMaker's SDK v3, unmodified: ModelTrainer in LOCAL_CONTAINER mode, without AWS."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from engine import MPI_IMAGE

# One after the other: `run_sdk` says why.
pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("sagemaker-local")]

SCRIPT = Path(__file__).parent / "scripts" / "model_trainer_v3.py"


@pytest.mark.parametrize(
    ("form", "instances", "runs_muster"),
    [
        # Its local mode names an interface, ethwe, that the containers don't have. AWS's torchrun driver
        # hands the name to NCCL alone; on CPU hosts gloo finds its own.
        ("no-source-code", 2, True),
        # Two would be two trainings: the first to end makes compose stop the other.
        ("entry-script", 1, False),
        ("command", 2, True),
        ("torchrun", 1, False),
        ("torchrun", 2, False),
    ],
)
def test_model_trainer_trains(run_sdk, accuracy, form, instances, runs_muster, image, digits, root):
    """Each form trains. Without source_code the image's own entry point runs; with it the SDK's
    script does, and muster only where `command` names it."""
    said = run_sdk("sdk-v3", SCRIPT, image, form, root / "examples", digits, instances)
    assert accuracy(said) > 0.95
    for number in range(1, instances + 1):
        assert (f"[muster algo-{number}] muster 0.1.0" in said) == runs_muster


def test_command_with_hyperparameters(run_sdk, accuracy, image, digits, root):
    """AWS's script passes none to `command`; under muster they are the script's arguments all the same."""
    form = "command-hyperparameters"
    said = run_sdk("sdk-v3", SCRIPT, image, form, root / "examples", digits, 1)
    assert accuracy(said) > 0.95
    assert "digits_ddp.py --epochs 11 --lr 0.02" in said


def test_source_code_with_requirements(run_sdk, accuracy, tmp_path, image, digits, root):
    """What requirements= names is installed by AWS's script with the image's own pip, and the script can
    import it; from a wheel beside it, so that no index is asked."""
    code = tmp_path / "code"
    code.mkdir()
    make_wheel(
        code / "muster_test_part-1.0-py3-none-any.whl", "muster_test_part", "WORD = 'installed'\n"
    )
    wheel = "./muster_test_part-1.0-py3-none-any.whl"
    (code / "requirements.txt").write_text(f"--no-index\n{wheel}\n", encoding="utf-8")
    shutil.copy(root / "examples" / "digits_ddp.py", code / "digits_ddp.py")
    with (code / "digits_ddp.py").open("a", encoding="utf-8") as script:
        script.write("    import muster_test_part\n    print('part', muster_test_part.WORD)\n")
    said = run_sdk("sdk-v3", SCRIPT, image, "requirements", code, digits, 1)
    assert accuracy(said) > 0.95
    assert "part installed" in said


@pytest.mark.parametrize(
    ("form", "mesh", "runs_muster"),
    [
        ("torchrun-smp", "{'dp_replicate': 2, 'dp_shard': 1, 'tp': 2} parts=2", False),
        ("muster-smp", "{'dp_shard': 2, 'tp': 2} parts=2", True),
    ],
)
def test_model_parallel_degrees(run_sdk, accuracy, form, mesh, runs_muster, image, digits, root):
    """smp=SMP(…) reaches the ranks of both hosts as their mesh, under AWS's torchrun driver and under muster."""
    said = run_sdk("sdk-v3", SCRIPT, image, form, root / "examples", digits, 2)
    assert f"mesh={mesh}" in said
    assert accuracy(said) > 0.95
    assert ("mp_parameters: MUSTER_MESH dp_shard=2 tp=2" in said) == runs_muster


def make_wheel(path: Path, name: str, text: str) -> None:
    """A wheel of one module, without any tool to build it."""
    about = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": text,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{file},,\n" for file in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(path, "w") as wheel:
        for file, content in files.items():
            wheel.writestr(file, content)


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
