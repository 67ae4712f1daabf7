"""horovodrun's command, and the environment that it gets."""

from __future__ import annotations

import pytest

from muster.errors import PlanError
from muster.model import Code
from muster.plan import Facts, make_plan
from muster.settings import read_settings

CODE = Code("/opt/ml/code", "train.py", ("/venv/python3", "/opt/ml/code/train.py"))
HOROVOD = {"MUSTER_LAUNCHER": "horovodrun"}
FACTS = Facts(*(None, ("shim",), 7777), horovodrun="/venv/horovodrun", interface="eth0")


@pytest.fixture
def plan(make_job):
    """Return a function to the plan of a host of a Horovod job."""

    def make(env=None, inherited=None, facts=FACTS, **changes):
        job = make_job(**{"hosts": ("algo-1", "algo-2"), "gpus": 2, **changes})
        return make_plan(job, CODE, read_settings(HOROVOD | (env or {})), facts, inherited or {})

    return make


def test_the_first_host_starts_all(plan):
    """The controller and the interface are chosen, nothing is probed, and no old check is believed."""
    made = plan()
    assert made.argv == (
        *("/venv/horovodrun", "-np", "4", "-H", "algo-1:2,algo-2:2", "--gloo"),
        *("--network-interfaces", "eth0", "--disable-cache", "--start-timeout", "120", "shim"),
    )
    assert made.rank_argv == CODE.command
    assert made.env["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] == "600"
    assert plan(current_host="algo-2").argv == ()


def test_the_controller_is_the_users(plan):
    """MPI where it is asked for."""
    assert "--mpi" in plan(env={"MUSTER_HOROVOD_CONTROLLER": "mpi"}).argv


def test_what_the_user_has_set_stays(plan):
    """Also a stall time of their own."""
    inherited = {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "60"}
    assert "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS" not in plan(inherited=inherited).env


def test_the_launcher_gets_no_secret(plan):
    """Its controller writes its environment on command lines: only chosen names are in it, and no MPI's."""
    inherited = {
        "PATH": "/bin",
        "HOROVOD_CYCLE_TIME": "1",
        "NCCL_DEBUG": "INFO",
        "AWS_SECRET_ACCESS_KEY": "x",
        "HF_TOKEN": "x",
        "OMPI_COMM_WORLD_RANK": "0",
        "PMIX_RANK": "0",
    }
    assert set(plan(inherited=inherited).kept) == {"PATH", "HOROVOD_CYCLE_TIME", "NCCL_DEBUG"}


def test_no_horovodrun_is_an_error(plan):
    """The message names the image that has it."""
    with pytest.raises(PlanError, match="no horovodrun on PATH") as error:
        plan(facts=Facts(None, ("shim",), 7777))
    assert "muster/horovod" in error.value.remedy
