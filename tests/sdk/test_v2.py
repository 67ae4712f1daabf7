"""SageMaker's SDK v2, unmodified, against our image, without AWS."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest
import readme
from engine import FULL, MPI_IMAGE, bridge
from s3_store import BUCKET, Store
from wheels import make_wheel

# One after the other: `run_sdk` says why.
pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("sagemaker-local")]

SCRIPTS = Path(__file__).parent / "scripts"


def test_estimator_trains_on_two_local_instances(run_sdk, accuracy, tmp_path, digits, root):
    """The README's Estimator, with image_uri, entry_point, two instances and local mode, trains
    the digits above 0.95 and gives a model archive."""
    (snippet,) = readme.blocks("python")
    snippet = snippet.replace("file:///tmp/muster-model", f"file://{tmp_path}/output")
    snippet = snippet.replace("file://build/digits", f"file://{digits}")
    (tmp_path / "snippet.py").write_text(snippet, encoding="utf-8")
    said = run_sdk("sdk-v2", tmp_path / "snippet.py", cwd=root)
    assert accuracy(said) > 0.95
    with tarfile.open(tmp_path / "output" / "model.tar.gz") as model:
        assert "model.pt" in [Path(name).name for name in model.getnames()]


@pytest.mark.parametrize("instances", [1, 2])
def test_pytorch_with_torch_distributed(run_sdk, accuracy, instances, image, digits, root):
    """PyTorch(image_uri=…, distribution={"torch_distributed": …}) chooses torchrun, and its
    JSON-encoded hyperparameters arrive as they were meant."""
    script = root / "examples" / "digits_ddp.py"
    said = run_sdk("sdk-v2", SCRIPTS / "pytorch_v2.py", image, script, digits, instances)
    assert accuracy(said) > 0.95
    assert "launcher torchrun (sagemaker_torch_distributed_enabled)" in said
    assert f"--nnodes={instances} " in said
    assert "digits_ddp.py --epochs 12 --lr 0.02" in said


def test_pytorch_with_mpi(run_sdk, accuracy, digits, root):
    """distribution={"mpi": …} chooses mpirun: hosts times processes ranks, and the guide's own options."""
    script = root / "examples" / "digits_ddp.py"
    options = "-verbose -x NCCL_DEBUG=VERSION"
    mpi = {"enabled": True, "processes_per_host": 2, "custom_mpi_options": options}
    how = json.dumps({"mpi": mpi})
    said = run_sdk("sdk-v2", SCRIPTS / "pytorch_v2.py", MPI_IMAGE, script, digits, 2, how)
    assert accuracy(said) > 0.95
    assert "launcher mpirun (sagemaker_mpi_enabled)" in said
    assert "world size 4" in said


def test_pytorch_with_smdistributed(run_sdk, accuracy, smddp_image, digits, root):
    """distribution={"smdistributed": …} starts the ranks as AWS's library wants, with the user's own options."""
    script = root / "examples" / "digits_smddp.py"
    dataparallel = {"enabled": True, "custom_mpi_options": "-verbose -x NCCL_DEBUG=VERSION"}
    how = json.dumps({"smdistributed": {"dataparallel": dataparallel}})
    said = run_sdk("sdk-v2", SCRIPTS / "pytorch_v2.py", smddp_image, script, digits, 2, how)
    assert accuracy(said) > 0.9
    assert "launcher mpirun (sagemaker_distributed_dataparallel_enabled)" in said
    assert "smddprun" in said


WHOLE = """
import runpy, tiny_package
runpy.run_path("digits_ddp.py", run_name="__main__")
"""


@pytest.fixture(scope="module")
def store():
    """A stand-in of S3 that this machine and containers reach by the same address."""
    with Store(bridge()) as store:
        yield store


@pytest.mark.parametrize(
    ("form", "instances"),
    [
        ("whole", 2),
        ("address", 1),
        ("isolated", 1),
        *(
            [("whole", 1), ("uploaded", 1), ("uploaded", 2), ("address", 2), ("isolated", 2)]
            if FULL
            else []
        ),
    ],
)
def test_code_on_s3(
    run_sdk, sdk_env, accuracy, store, form, instances, image, digits, root, tmp_path
):
    """What the SDK uploads is fetched once a host, and its packages are installed once a host; an archive that is
    there already and a shell script, and the channel of an isolated job, train as well."""
    sdk_env.update(store.env)
    folder = shutil.copytree(root / "examples", tmp_path / "examples")
    if form == "whole":
        make_wheel(folder / "wheels", "tiny-package", "1.0")
        (folder / "requirements.txt").write_text("tiny-package==1.0\n", encoding="utf-8")
        (folder / "conf.yaml").write_text("epochs: 12\nlr: 99\n", encoding="utf-8")
        (folder / "whole.py").write_text(WHOLE, encoding="utf-8")
    said = run_sdk(
        "sdk-v2", SCRIPTS / "estimator_v2.py", image, form, folder, digits, instances, BUCKET
    )
    assert accuracy(said) > 0.9
    fetched = said.count(f"MB from s3://{BUCKET}/")
    assert fetched == (0 if form == "isolated" else instances)
    installed = said.count("requirements: 1 package in ")
    assert installed == (instances if form == "whole" else 0)
    assert "canary" not in said
