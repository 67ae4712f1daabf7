"""The payloads that the SDKs send (tests/sdk/payloads), as jobs: what each host of each would run.

The SDKs' local modes refuse most of these forms. So support/opt_ml.py puts a payload below a
folder as SageMaker would, and `muster plan` reads it there. The code of most is an archive on S3:
conftest.py puts a folder in its place.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import opt_ml
import pytest
from s3_store import pack

PAYLOADS = Path(__file__).parent / "payloads"
NAMES = sorted(f"{path.parent.name}/{path.stem}" for path in PAYLOADS.glob("*/*.json"))

FEW = ("--epochs", "3", "--lr", "0.1")
TUNED = ("--batch-size", "16", "--epochs", "3", "--lr", "0.01", "--optimizer", "sgd")
HYBRID = '{"tensor_parallel_degree":2,"hybrid_shard_degree":4,"activation_loading_horizon":2}'
SMP = (*FEW, "--mp_parameters", '{"tensor_parallel_degree":2}')
ALL_KINDS = (
    *("--a-bool", "True"),
    *("--a-dict", '{"b":1,"c":"d e"}'),
    *("--a-float", "1e-05"),
    *("--a-list", '[1,"two"]'),
    *("--a-number-as-text", "1e10"),
    *("--a-text", "it's $HOME"),
    *("-x", "1"),
)
# A generic Estimator without source_dir sends what Python's str makes of a value. That is no
# JSON, so it is text like any other: nobody can tell None from the text "None" any more.
ALL_KINDS_AS_PYTHON = (
    *("--a-bool", "True"),
    *("--a-dict", "{'b': 1, 'c': 'd e'}"),
    *("--a-float", "1e-05"),
    *("--a-list", "[1, 'two']"),
    *("--a-none", "None"),
    *("--a-number-as-text", "1e10"),
    *("--a-text", "it's $HOME"),
    *("-x", "1"),
)

BOTH = ("algo-1", "algo-2")
# Of the forms with groups: `data` has algo-1, `gpu` the other two.
ALL_GROUPS, GPU_GROUP = ("algo-1", "algo-2", "algo-3"), ("algo-2", "algo-3")


class Runs(NamedTuple):
    """A form that trains by torchrun: what chose it, the script's arguments, ranks a host, and
    the hosts of the world."""

    chosen_by: str
    args: tuple[str, ...] = FEW
    nproc: int = 1
    world: tuple[str, ...] = BOTH


class Refused(NamedTuple):
    """A form that this version refuses: why, and the hosts of the world that was asked for."""

    why: str
    world: tuple[str, ...] = BOTH
    args: tuple[str, ...] = FEW


def no_mpirun(world: tuple[str, ...] = BOTH) -> Refused:
    """A launcher that is not on this machine, on which plans are made here."""
    return Refused("launcher mpirun: no mpirun of Open MPI on PATH", world)


def no_smddp(world: tuple[str, ...] = BOTH) -> Refused:
    """AWS's own library, which is not on this machine either."""
    return Refused(
        "the job asks for SageMaker's data parallel library: the image has no "
        "smdistributed.dataparallel for the script's Python",
        world,
    )


def never(key: str) -> Refused:
    """A feature of other images."""
    return Refused(f"hyperparameter sagemaker_{key} can't be honoured")


TORCH = "sagemaker_torch_distributed_enabled"
SHELL = "the entry point is no Python file, and the job names none"

EXPECTED: dict[str, Runs | Refused] = {
    "v2/generic": Runs("the default", ALL_KINDS_AS_PYTHON),
    "v2/generic-source-dir": Runs("the default", ALL_KINDS),
    "v2/generic-debugger": Runs("the default"),
    "v2/generic-by-hand": Runs(TORCH, args=(), nproc=4),
    "v2/generic-groups": Runs(TORCH, args=(), nproc=4, world=GPU_GROUP),
    "v2/generic-groups-source-dir": Runs(TORCH, args=(), nproc=4, world=GPU_GROUP),
    "v2/pytorch": Runs("the default", ALL_KINDS),
    "v2/pytorch-shell": Runs(SHELL),
    "v2/pytorch-torchrun": Runs(TORCH),
    "v2/pytorch-mpi": no_mpirun(),
    "v2/pytorch-smddp": no_smddp(),
    "v2/pytorch-smddp-options": no_smddp(),
    "v2/pytorch-pytorchddp": no_smddp(),  # the SDK makes smddp of it
    "v2/pytorch-smp-1": no_mpirun(),
    "v2/pytorch-smp-2": Runs(TORCH, SMP),
    "v2/pytorch-smp-2-hybrid": Runs(TORCH, args=("--mp_parameters", HYBRID), nproc=8),
    "v2/pytorch-modes": Runs(TORCH, nproc=4),
    "v2/pytorch-compiler": never("training_compiler_enabled"),
    "v2/pytorch-xla": never("pytorch_xla_multi_worker_enabled"),
    "v2/pytorch-spot": Runs(TORCH),
    "v2/pytorch-groups-mpi": no_mpirun(GPU_GROUP),
    "v2/pytorch-groups-smddp": no_smddp(GPU_GROUP),
    "v2/pytorch-groups-torchrun": Runs(TORCH, world=ALL_GROUPS),  # the SDK drops the groups
    "v2/huggingface-torchrun": Runs(TORCH),
    "v2/huggingface-pytorchddp": no_smddp(),
    "v2/huggingface-compiler": never("training_compiler_enabled"),
    "v2/huggingface-xla": never("pytorch_xla_multi_worker_enabled"),
    "v2/tensorflow-parameter-server": never("parameter_server_enabled"),
    "v2/tensorflow-mirrored": never("multi_worker_mirrored_strategy_enabled"),
    "v2/tuner-generic": Runs("the default", TUNED),
    "v2/tuner-generic-metadata": Runs("the default", TUNED),
    "v2/tuner-pytorch": Runs(TORCH, TUNED),
    "v2/tuner-pytorch-metadata": Runs(TORCH, TUNED),
    "v3/no-source-code": Runs(TORCH, ALL_KINDS, nproc=4),
    "v3/modes": Runs(TORCH, args=(), nproc=4),
    "v3/spot": Runs(TORCH, args=(), nproc=4),
}
ISOLATED = "v2/pytorch-isolated"
ISOLATED_PIPE = "v2/pytorch-modes-isolated"
SMP_FORMS = ("v3/torchrun-smp-hybrid", "v3/muster-smp")
BASH = [
    *(f"v3/{name}" for name in ("command", "entry-script", "mpi", "torchrun", "torchrun-smp")),
    *("v3/spot-entry-script", *SMP_FORMS),
]


@pytest.mark.parametrize("name", EXPECTED)
def test_each_host_runs_what_the_job_asks_for(replay, name):
    """Every host of the world has the launcher, the ranks and the leader that the SDK's form asks
    for, and the script gets the user's hyperparameters, and no reserved one. What can't be done
    is refused with status 73, by name. A host outside the world runs the script by itself."""
    job, expected = payload(name), EXPECTED[name]
    for host in opt_ml.hosts_of(job):
        replayed = replay(job, host)
        if host not in expected.world:
            check_outsider(replayed, expected)
        elif name == "v2/pytorch-shell":
            check_shell(replayed, expected)
        elif isinstance(expected, Refused):
            done = replayed.muster_plan()
            assert (done.returncode, done.stdout) == (73, "")
            assert done.stderr.splitlines()[0] == f"muster: {expected.why}"
        else:
            check_rank(replayed, expected)


def check_rank(replayed, expected: Runs) -> None:
    """A host of the world: its part of the one torchrun."""
    plan, size = replayed.plan, len(expected.world)
    node_rank = expected.world.index(replayed.host)
    assert plan["launcher"] == "torchrun"
    assert f"launcher torchrun ({expected.chosen_by})" in plan["notes"]
    assert plan["hosts"] == list(expected.world)
    assert (plan["node_rank"], plan["nproc"]) == (node_rank, expected.nproc)
    assert plan["world_size"] == size * expected.nproc
    assert {
        f"--nnodes={size}",
        f"--nproc-per-node={expected.nproc}",
        f"--node-rank={node_rank}",
        f"--master-addr={expected.world[0]}",
    } <= set(plan["argv"])
    assert replayed.script_and_args == (replayed.code / "train.py", *expected.args)


def check_shell(replayed, expected: Runs) -> None:
    """A shell script is run once a host, and finds what a launcher of its own asks for."""
    assert replayed.plan["launcher"] == "cluster"
    assert f"launcher cluster ({expected.chosen_by})" in replayed.plan["notes"]
    assert replayed.plan["hosts"] == list(expected.world)
    assert replayed.plan["nproc"] == 1
    assert replayed.plan["hostfile"] == "algo-1 slots=1\nalgo-2 slots=1\n"


def check_outsider(replayed, expected: Runs | Refused) -> None:
    """A host of a group that the distribution doesn't name."""
    assert replayed.plan["launcher"] == "plain"
    assert replayed.plan["hosts"] == [replayed.host]
    assert (replayed.plan["nproc"], replayed.plan["world_size"]) == (1, 1)
    assert replayed.script_and_args == (replayed.code / "train.py", *expected.args)


def test_every_payload_is_replayed():
    """A form that is captured has its expectation here."""
    assert sorted([*EXPECTED, *BASH, ISOLATED, ISOLATED_PIPE]) == NAMES


def test_network_isolation_names_an_archive_in_the_channel(replay):
    """With network isolation the SDK names an archive in the channel `code`: it is unpacked, and a plan leaves
    nothing of it behind."""
    job = payload(ISOLATED)
    assert job["EnableNetworkIsolation"]
    replayed = replay(job, "algo-1")
    archive = replayed.base / "input" / "data" / "code" / "sourcedir.tar.gz"
    archive.write_bytes(pack({"train.py": "", "of_the_archive.py": ""}))
    cwd = replayed.plan["cwd"]
    assert f"{cwd}/train.py" in replayed.plan["argv"]
    assert any(f"code: {archive}" in note and cwd in note for note in replayed.plan["notes"])
    assert not Path(cwd).exists()


def test_network_isolation_with_unpacked_code(replay):
    """The channel `code` with the files themselves is found without any address: nothing has to be
    fetched."""
    job = payload(ISOLATED)
    del job["HyperParameters"]["sagemaker_submit_directory"]
    for host in BOTH:
        replayed = replay(job, host)
        assert replayed.code == replayed.base / "input" / "data" / "code"
        assert replayed.plan["cwd"] == str(replayed.code)
        check_rank(replayed, Runs(TORCH))


def test_network_isolation_and_pipe_mode(replay):
    """The SDK's own channel `code` then has the job's mode, and no archive is where it says: refused
    with status 71 and the way out."""
    replayed = replay(payload(ISOLATED_PIPE), "algo-1")
    assert (replayed.base / "input" / "data" / "code_0").is_fifo()
    done = replayed.muster_plan()
    assert done.returncode == 71
    assert "channel code, which is in Pipe mode" in done.stderr
    assert 'input_mode="File"' in done.stderr


@pytest.mark.parametrize(
    ("name", "modes"),
    [
        (
            "v2/pytorch-modes",
            {"training": "Pipe", "boxes": "Pipe", "part": "FastFile", "eval": "File"},
        ),
        # Its InputData is always File; `code` is one.
        (
            "v3/modes",
            {
                "boxes": "Pipe",
                "part": "FastFile",
                **dict.fromkeys(("training", "code", "eval"), "File"),
            },
        ),
    ],
)
def test_input_modes(replay, name, modes):
    """Each channel's mode is the host's, the job's own where it names none; several ranks at one
    FIFO are told, and the augmented manifest's records are known to be wrapped."""
    replayed = replay(payload(name), "algo-2")
    config = replayed.base / "input" / "config" / "inputdataconfig.json"
    sent = json.loads(config.read_text(encoding="utf-8"))
    assert {key: entry["TrainingInputMode"] for key, entry in sent.items()} == modes
    assert sent["boxes"]["RecordWrapperType"] == "RecordIO"
    assert sent["part"]["S3DistributionType"] == "ShardedByS3Key"
    piped = ", ".join(sorted(key for key, mode in modes.items() if mode == "Pipe"))
    said = f"Pipe mode ({piped}): 4 ranks share one FIFO: let one rank read, or use FastFile"
    assert said in replayed.plan["notes"]


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("v2/pytorch-spot", "checkpoints"),
        ("v3/spot", "checkpoints/run"),
        ("v3/spot-entry-script", "checkpoints/run"),
    ],
)
def test_spot_with_checkpoints(replay, name, folder):
    """Both SDKs ask for spot, a wait and a place for checkpoints, and its folder is what the
    container is told, in the file that the platform writes."""
    job = payload(name)
    assert job["EnableManagedSpotTraining"]
    assert job["StoppingCondition"] == {
        "MaxRuntimeInSeconds": 3600,
        "MaxWaitTimeInSeconds": 7200,
    }
    replayed = replay(job, "algo-1")
    told = replayed.base / "input" / "config" / "checkpointconfig.json"
    assert json.loads(told.read_text(encoding="utf-8")) == {"LocalPath": f"/opt/ml/{folder}"}
    assert (replayed.base / folder).is_dir()


def test_no_checkpoints_no_file(replay):
    """The platform leaves out what a job doesn't use."""
    replayed = replay(payload("v2/pytorch-torchrun"), "algo-1")
    assert not (replayed.base / "input" / "config" / "checkpointconfig.json").exists()
    assert not (replayed.base / "checkpoints").exists()


@pytest.mark.parametrize(
    ("name", "mesh"),
    [
        ("v2/pytorch-smp-2", "dp_shard=1 tp=2; tp=2 reaches over hosts, which is slow"),
        ("v2/pytorch-smp-2-hybrid", "dp_replicate=2 dp_shard=4 tp=2"),
    ],
)
def test_the_mesh_of_mp_parameters(replay, name, mesh):
    """distribution={"smdistributed": {"modelparallel": …}} gives the ranks of both hosts a mesh."""
    for host in BOTH:
        (note,) = (n for n in replay(payload(name), host).plan["notes"] if "mp_parameters" in n)
        assert note.startswith(f"mp_parameters: MUSTER_MESH {mesh}; ")


@pytest.mark.parametrize("name", SMP_FORMS)
def test_the_mesh_of_model_trainer(replay, name):
    """Torchrun(smp=…) and Muster(smp=…) send the same; what muster's driver starts makes a mesh of it."""
    replayed = replay(payload(name), "algo-2")
    done = replayed.muster_plan("train.py", MUSTER_NPROC="4")
    assert done.returncode == 0, done.stderr
    (note,) = (n for n in json.loads(done.stdout)["notes"] if "mp_parameters" in n)
    assert note.startswith("mp_parameters: MUSTER_MESH dp_shard=4 tp=2; ")


def test_what_aws_makes_of_it(replay, run_under, tmp_path):
    """AWS's own environment.py, which ModelTrainer's script runs in the image: its variables give a
    rank the same mesh, and the channel's stem as muster's do."""
    replayed = replay(payload("v3/torchrun-smp-hybrid"), "algo-2")
    script = Path(__file__).parent / "scripts" / "aws_environment.py"
    exports = tmp_path / "exports.sh"
    run_under("sdk-v3", script, replayed.base / "input" / "config", exports)
    ask = (
        "import os; from muster.training.mesh import read_mesh; "
        "print(read_mesh({**os.environ, 'WORLD_SIZE': '8'}).text, os.environ['SM_CHANNEL_TRAINING'])"
    )
    done = subprocess.run(
        ["bash", "-ec", f'. "{exports}"; "$0" -Ic "$1"', sys.executable, ask],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    mesh, stem = done.stdout.rsplit(" ", 1)
    assert json.loads(mesh) == {"shape": [4, 2], "names": ["dp_shard", "tp"]}
    assert stem == "/opt/ml/input/data/training\n"


@pytest.mark.parametrize("name", BASH)
def test_source_code_replaces_the_entry_point(name):
    """ModelTrainer with source_code runs bash where muster would, and tells it nothing."""
    job = payload(name)
    assert job["AlgorithmSpecification"]["ContainerEntrypoint"] == ["/bin/bash"]
    assert not [key for key in job["HyperParameters"] if key.startswith("sagemaker_")]


def test_no_source_code_keeps_the_entry_point():
    """ModelTrainer without source_code leaves the image's own entry point, which is muster."""
    algorithm = payload("v3/no-source-code")["AlgorithmSpecification"]
    assert not {"ContainerEntrypoint", "ContainerArguments"} & set(algorithm)


def payload(name: str) -> dict[str, Any]:
    """The job of a payload; of a tuning job, its first."""
    text = (PAYLOADS / f"{name}.json").read_text(encoding="utf-8")
    return opt_ml.first_job(json.loads(text))
