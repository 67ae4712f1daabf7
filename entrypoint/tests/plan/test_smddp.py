"""SageMaker's data parallel library: where it can work it gets what it wants, elsewhere nothing runs by mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muster.contract import hyperparameters
from muster.errors import PlanError
from muster.model import Code, Job, Plan
from muster.plan import Facts, make_plan
from muster.settings import read_settings

CODE = Code("/opt/ml/code", "train.py", ("/venv/python3", "/opt/ml/code/train.py"))
TYPES = ("ml.p4d.24xlarge", "ml.p4de.24xlarge")
HERE = {"smddp_found": True, "smddprun": "/venv/smddprun", "smddp_types": TYPES}


@pytest.fixture
def plan(make_job: Callable[..., Job]) -> Callable[..., Plan]:
    """Return a function to the plan of a job that asks for the library."""

    def make(
        env: dict[str, str] | None = None,
        inherited: dict[str, str] | None = None,
        key: str = "sagemaker_distributed_dataparallel_enabled",
        facts: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Plan:
        split = hyperparameters.split({key: "true"})
        values = {"hosts": ("algo-1", "algo-2"), "gpus": 8, "instance_type": TYPES[0], **changes}
        job = make_job(reserved=split.reserved, **values)
        known = Facts(
            *(None, ("shim",), 7777),
            mpirun="/bin/mpirun",
            mpi_major=4,
            **{**HERE, **(facts or {})},
        )
        return make_plan(job, CODE, read_settings(env or {}), known, inherited or {})

    return make


@pytest.mark.parametrize(
    "key", ["sagemaker_distributed_dataparallel_enabled", "sagemaker_pytorch_ddp_enabled"]
)
def test_the_library_gets_what_it_wants(plan, key):
    """mpirun, its variables on every host, and its wrapper in front of the script."""
    made = plan(key=key)
    assert made.launcher == "mpirun"
    assert made.rank_argv == ("/venv/smddprun", *CODE.command)
    assert (
        made.env.items()
        >= {
            "SMDATAPARALLEL_USE_HOMOGENEOUS": "1",
            "SMDATAPARALLEL_SERVER_ADDR": "algo-1",
            "SMDATAPARALLEL_SERVER_PORT": "7592",
            "SAGEMAKER_INSTANCE_TYPE": "ml.p4d.24xlarge",
        }.items()
    )
    assert "MUSTER_BACKEND" not in made.env
    assert plan(key=key, current_host="algo-2").rank_argv[0] == "/venv/smddprun"


def test_the_users_variables_stay(plan):
    """What the job's environment says wins over our default."""
    made = plan(inherited={"SMDATAPARALLEL_SERVER_PORT": "7600"})
    assert "SMDATAPARALLEL_SERVER_PORT" not in made.env


def test_one_host_is_warned_of(plan):
    """It works, and gains nothing."""
    made = plan(hosts=("algo-1",))
    assert made.env["SMDATAPARALLEL_USE_SINGLENODE"] == "1"
    assert any(note.startswith("WARNING: smddp on one host") for note in made.notes)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"facts": {"smddp_found": False}}, "the image has no smdistributed.dataparallel"),
        ({"instance_type": "ml.p5.48xlarge"}, "it does not support ml.p5.48xlarge, only ml.p4d"),
        ({"instance_type": "ml.g5.12xlarge"}, "it does not support ml.g5.12xlarge"),
    ],
)
def test_where_it_can_not_work(plan, changes, why):
    """Refused before anything starts, with the matrix; or, where the job allows, without the library."""
    with pytest.raises(PlanError) as error:
        plan(**changes)
    assert why in error.value.what
    assert "PyTorch 2.0 to 2.5" in error.value.remedy
    assert "MUSTER_SMDDP_FALLBACK=nccl" in error.value.remedy
    made = plan(env={"MUSTER_SMDDP_FALLBACK": "nccl"}, **changes)
    assert made.rank_argv == CODE.command
    assert made.env["MUSTER_BACKEND"] == "nccl"
    assert not [name for name in made.env if name.startswith("SMDATAPARALLEL")]
    assert any(why in note for note in made.notes)


def test_local_modes_instances_are_not_judged(plan):
    """Whoever tries it there knows what they have."""
    assert plan(instance_type="local").launcher == "mpirun"


def test_another_launcher_is_another_choice(plan):
    """MUSTER_LAUNCHER wins over what the SDK asks for, and the library is left alone."""
    made = plan(env={"MUSTER_LAUNCHER": "plain"}, facts={"smddp_found": False})
    assert made.launcher == "plain"
