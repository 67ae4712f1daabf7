"""Jobs with instance groups: who trains, who leads, what the others do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.contract import read_contract
from muster.errors import PlanError
from muster.model import Code, Plan
from muster.plan import Facts, make_plan
from muster.settings import read_settings

GROUPS = {"data": ["algo-1"], "gpu": ["algo-10", "algo-2", "algo-3"]}


@pytest.fixture
def plan(opt_ml):
    """Return a function to the plan of one host of a job with two groups."""

    def make(host: str, **hyperparameters: str) -> Plan:
        opt_ml.config(
            "resourceconfig",
            {
                "current_host": host,
                "hosts": sorted(host for hosts in GROUPS.values() for host in hosts),
                "current_group_name": next(g for g, hosts in GROUPS.items() if host in hosts),
                "instance_groups": [
                    {"instance_group_name": name, "instance_type": "ml.x", "hosts": hosts}
                    for name, hosts in GROUPS.items()
                ],
            },
        )
        sent: dict[str, Any] = {"sagemaker_torch_distributed_enabled": "true", **hyperparameters}
        opt_ml.config("hyperparameters", sent)
        settings = read_settings(opt_ml.env)
        job = read_contract(settings, opt_ml.env)
        code = Code("/code", "train.py", ("python3", "/code/train.py"))
        return make_plan(job, code, settings, Facts("/venv/torchrun", ("shim",), 7777), {})

    return make


NAMED = {"sagemaker_distribution_instance_groups": json.dumps(["gpu"])}


def test_only_the_named_groups_train_together(plan):
    """Three of the four hosts form the world; its first in natural order leads."""
    made = plan("algo-3", **NAMED)
    assert made.hosts == ("algo-2", "algo-3", "algo-10")
    assert made.launcher == "torchrun"
    assert "--nnodes=3" in made.argv
    assert "--node-rank=1" in made.argv
    assert "--master-addr=algo-2" in made.argv
    assert made.rank_env["SM_MASTER_ADDR"] == "algo-2"
    assert made.rank_env["SM_DISTRIBUTION_INSTANCE_GROUPS"] == '["gpu"]'


def test_a_host_outside_runs_the_script_as_one_process(plan):
    """It is told who trains and who leads, and is no rank of theirs."""
    made = plan("algo-1", **NAMED)
    assert made.launcher == "plain"
    assert made.argv == ("shim", "python3", "/code/train.py")
    assert (made.nproc, made.world_size) == (1, 1)
    assert made.rank_env["SM_MASTER_ADDR"] == "algo-2"
    assert made.rank_env["SM_CURRENT_INSTANCE_GROUP"] == "data"
    assert any("group data is not in the distribution" in note for note in made.notes)


def test_without_named_groups_all_hosts_train_together(plan):
    """One cluster was asked for; AWS's toolkit would make one of each group."""
    assert plan("algo-1").hosts == ("algo-1", "algo-2", "algo-3", "algo-10")


def test_a_group_that_is_not_there_is_refused(plan):
    """The error names the groups that there are."""
    with pytest.raises(PlanError, match="names gpus; the job's groups are data, gpu"):
        plan("algo-1", sagemaker_distribution_instance_groups='["gpus"]')


@pytest.mark.parametrize("sent", ['["gpu"]', "['gpu']"])
def test_a_list_of_groups_as_json_and_as_python(plan, sent: str):
    """A generic Estimator without source_dir sends what Python makes of a list."""
    made = plan("algo-3", sagemaker_distribution_instance_groups=sent)
    assert made.hosts == ("algo-2", "algo-3", "algo-10")


@pytest.mark.parametrize("sent", ['"gpu"', "gpu", "[1]", "[['gpu']", "{}", "{[]: 1}", "7"])
def test_what_is_no_list_of_groups_is_refused(plan, sent: str):
    """Passed over, it would train on hosts that were not meant."""
    with pytest.raises(PlanError, match="is no list of names"):
        plan("algo-3", sagemaker_distribution_instance_groups=sent)


def test_no_list_is_as_if_it_were_not_sent(plan):
    """Null names no groups."""
    assert len(plan("algo-3", sagemaker_distribution_instance_groups="null").hosts) == 4


def test_a_rank_knows_whether_it_is_in_the_world(plan):
    """Hosts outside run the script as one plain process, and a variable says so."""
    assert plan("algo-3", **NAMED).rank_env["MUSTER_IN_WORLD"] == "1"
    outside = plan("algo-1", **NAMED)
    assert (outside.launcher, outside.nproc) == ("plain", 1)
    assert outside.rank_env["MUSTER_IN_WORLD"] == "0"
    assert outside.rank_env["SM_CURRENT_INSTANCE_GROUP"] == "data"
