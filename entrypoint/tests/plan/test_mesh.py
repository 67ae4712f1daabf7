"""mp_parameters: the script gets them as they were sent, and the ranks a mesh."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from muster.contract import hyperparameters
from muster.errors import PlanError
from muster.model import Code, Job, Plan
from muster.plan import Facts, make_plan
from muster.settings import read_settings

CODE = Code("/opt/ml/code", "train.py", ("/venv/python3", "/opt/ml/code/train.py"))
TWO = ("algo-1", "algo-2")
TENSOR = '{"tensor_parallel_degree": 2}'


@pytest.fixture
def plan(make_job: Callable[..., Job]) -> Callable[..., Plan]:
    """Return a function from mp_parameters to the plan of two hosts with two ranks each."""

    def make(sent: Any, nprocs: tuple[int, ...] = (), **env: str) -> Plan:
        split = hyperparameters.split({} if sent is None else {"mp_parameters": sent})
        job = make_job(user={item.key: item for item in split.user}, hosts=TWO)
        facts = Facts("/venv/torchrun", ("shim",), 7777, nprocs=nprocs)
        return make_plan(job, CODE, read_settings({"MUSTER_NPROC": "2"} | env), facts, {})

    return make


@pytest.mark.parametrize(
    ("mode", "arguments"),
    [
        ("plain", ("--mp_parameters", '{"tensor_parallel_degree":2,"x":"a"}')),
        ("toolkit", ("--mp_parameters", "tensor_parallel_degree=2,x=a")),
        ("equals", ('mp_parameters={"tensor_parallel_degree":2,"x":"a"}',)),
    ],
)
def test_the_script_gets_them(plan, mode: str, arguments: tuple[str, ...]):
    """As an argument in the form that is asked for, as JSON in a variable, and as a mesh."""
    made = plan('{"tensor_parallel_degree": 2, "x": "a"}', MUSTER_ARGS=mode)
    assert made.argv[-len(arguments) :] == arguments
    assert json.loads(made.rank_env["SM_HP_MP_PARAMETERS"]) == {
        "tensor_parallel_degree": 2,
        "x": "a",
    }
    assert json.loads(made.rank_env["MUSTER_MESH"]) == {
        "shape": [2, 2],
        "names": ["dp_shard", "tp"],
    }


@pytest.mark.parametrize("sent", [TENSOR, {"tensor_parallel_degree": 2}, str(json.loads(TENSOR))])
def test_every_form_of_the_object(plan, sent: Any):
    """As the SDKs encode it, as an object in the file, and as Python's str makes it."""
    assert json.loads(plan(sent).rank_env["MUSTER_MESH"])["shape"] == [2, 2]


@pytest.mark.parametrize("sent", [None, "{}", "null", "tensor_parallel_degree=2", "[2]", "{[]: 1}"])
def test_nothing_is_made_of_anything_else(plan, sent: Any):
    """Without an object there is no mesh, and no word of one."""
    made = plan(sent)
    assert "MUSTER_MESH" not in made.rank_env
    assert not [note for note in made.notes if note.startswith("mp_parameters")]


def test_the_ranks_of_all_hosts_count(plan):
    """Hosts with different GPUs: the world is what they have told each other."""
    made = plan('{"tensor_parallel_degree": 2}', nprocs=(2, 4))
    assert json.loads(made.rank_env["MUSTER_MESH"])["shape"] == [3, 2]


def test_degrees_that_do_not_fit(plan):
    """Both numbers are named before anything runs, and what can be changed."""
    with pytest.raises(
        PlanError, match="tensor_parallel_degree 3 does not divide the 4 ranks"
    ) as e:
        plan('{"tensor_parallel_degree": 3}')
    assert e.value.what.startswith("mp_parameters: ")
    assert "MUSTER_NPROC" in e.value.remedy


@pytest.mark.parametrize("launcher", ["plain", "cluster"])
def test_launchers_that_make_no_world(plan, launcher: str):
    """Where the script is started once a host, its own launcher knows the world: nothing is refused."""
    made = plan('{"tensor_parallel_degree": 3}', MUSTER_LAUNCHER=launcher)
    assert "MUSTER_MESH" not in made.rank_env


def test_a_pipeline_is_told(plan):
    """The library's first version cut models by itself: the job runs, and says that nobody does so here."""
    made = plan('{"partitions": 2, "ddp": true}')
    assert "MUSTER_MESH" not in made.rank_env
    (note,) = (note for note in made.notes if note.startswith("mp_parameters"))
    assert "partitions asks for a pipeline" in note
    assert "torch.sagemaker" in note


@pytest.mark.parametrize(("tensor", "across"), [(2, False), (4, True)])
def test_the_mesh_is_told(plan, tensor: int, across: bool):
    """The log has the dimensions, that AWS's library is not here, and tensors that cross hosts."""
    made = plan(json.dumps({"tensor_parallel_degree": tensor}))
    (note,) = (note for note in made.notes if note.startswith("mp_parameters"))
    assert f"MUSTER_MESH dp_shard={4 // tensor} tp={tensor}" in note
    assert "torch.sagemaker" in note
    assert ("reaches over hosts" in note) == across
