"""Our variables and arguments against those of AWS's sagemaker-training, on the same contract."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from muster.contract import read_contract
from muster.model import Code
from muster.plan import Facts, make_plan
from muster.settings import read_settings

MIGRATION = Path(__file__).resolve().parents[2] / "docs" / "migration.md"
DIFFERENT = re.findall(r"^\| `(SM_\w+\*?)` \|", MIGRATION.read_text(encoding="utf-8"), re.MULTILINE)

keys = st.text(st.sampled_from("abckLR_-.09"), min_size=1, max_size=8)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**25), 10**25),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
texts = st.one_of(
    values.map(json.dumps),
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20),
    st.sampled_from(["1e5", "1.10", "007", "12e45678", "True", "None", "a b", "$HOME", " 3", "-0"]),
)
reserved = st.fixed_dictionaries(
    {"sagemaker_program": st.sampled_from(["train.py", '"train.py"', "src/train.py"])},
    optional={
        "sagemaker_region": st.sampled_from(["us-east-1", '"eu-west-1"']),
        "sagemaker_container_log_level": st.sampled_from(["20", "10"]),
        "sagemaker_job_name": st.just('"job"'),
        "sagemaker_torch_distributed_enabled": st.sampled_from(["true", "false"]),
        "sagemaker_instance_type": st.just('"ml.p4d.24xlarge"'),
        "_tuning_objective_metric": st.just("val:loss"),
    },
)
channels = st.dictionaries(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,7}", fullmatch=True),
    st.fixed_dictionaries({"TrainingInputMode": st.sampled_from(["File", "Pipe", "FastFile"])}),
    max_size=3,
)


@st.composite
def resources(draw) -> dict[str, Any]:
    """A resourceconfig.json, of 2020 or of today, with one or two groups."""
    hosts = [f"algo-{i + 1}" for i in range(draw(st.integers(1, 12)))]
    config: dict[str, Any] = {
        "current_host": draw(st.sampled_from(hosts)),
        "hosts": sorted(hosts),
        "network_interface_name": "lo",
    }
    if draw(st.booleans()):
        cut = draw(st.integers(0, len(hosts) - 1))
        groups = {"data": hosts[:cut], "gpu": hosts[cut:]} if cut else {"gpu": hosts}
        config |= {
            "current_instance_type": "ml.p4d.24xlarge",
            "current_group_name": next(g for g in groups if config["current_host"] in groups[g]),
            "instance_groups": [
                {"instance_group_name": name, "instance_type": "ml.p4d.24xlarge", "hosts": members}
                for name, members in groups.items()
            ],
            "topology": draw(
                st.sampled_from([None, [{"hostName": "algo-1", "capacityUnitId": 1}]])
            ),
        }
    return config


def with_groups(contract: dict[str, Any]) -> dict[str, Any]:
    """Where there are two groups, name one of them for the distribution in half of the cases."""
    names = [
        g["instance_group_name"] for g in contract["resourceconfig"].get("instance_groups", [])
    ]
    if len(names) > 1 and "sagemaker_region" in contract["hyperparameters"]:
        key = "sagemaker_distribution_instance_groups"
        contract["hyperparameters"][key] = json.dumps(names[1:])
    return contract


contracts = st.fixed_dictionaries(
    {
        "hyperparameters": st.builds(
            lambda user, own: {**user, **own}, st.dictionaries(keys, texts, max_size=6), reserved
        ),
        "resourceconfig": resources(),
        "inputdataconfig": channels,
    }
).map(with_groups)


def ours(contract: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    """What muster makes of a contract: the ranks' variables, and the toolkit's arguments."""
    with tempfile.TemporaryDirectory() as base:
        config = Path(base) / "input" / "config"
        config.mkdir(parents=True)
        for name, value in contract.items():
            (config / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
        env = {"SAGEMAKER_BASE_DIR": base, "TRAINING_JOB_NAME": "job", "MUSTER_ARGS": "toolkit"}
        chosen = read_settings(env | {"MUSTER_LAUNCHER": "plain"})
        job = read_contract(chosen, env)
        code = Code(f"{base}/code", str(job.program), ("python3", "train.py"))
        plan = make_plan(job, code, chosen, Facts(None, (), 7777), env)
        variables = {name: value.replace(base, "/ml") for name, value in plan.rank_env.items()}
        return variables, [word.replace(base, "/ml") for word in plan.argv[2:]]


def may_differ(name: str) -> bool:
    return any(re.fullmatch(row.replace("*", ".*"), name) for row in DIFFERENT)


EXAMPLE = {
    "hyperparameters": {
        "sagemaker_program": '"train.py"',
        "sagemaker_mpi_enabled": "true",
        "epochs": "5",
        "lr": "1e5",
        "k": '"x"',
        "flags": "[true, null]",
        "nested": '{"b": 1, "a": "x"}',
    },
    "resourceconfig": {"current_host": "algo-1", "hosts": ["algo-1"]},
    "inputdataconfig": {"training": {"TrainingInputMode": "File"}},
}


@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(contract=EXAMPLE)
@given(contract=contracts)
def test_variables_and_arguments_are_the_toolkits(toolkit, contract):
    """Every SM_* that the toolkit sets is set here, and equal unless docs/migration.md says why
    not; with MUSTER_ARGS=toolkit the script's arguments are equal without exception."""
    theirs = toolkit(contract)
    base = theirs["env"]["SM_MODEL_DIR"].removesuffix("/model")
    env, arguments = ours(contract)
    assert arguments == theirs["args"]
    for name, value in theirs["env"].items():
        assert name in env, name
        if not may_differ(name):
            assert env[name] == value.replace(base, "/ml"), name


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contract=contracts)
def test_a_difference_is_only_the_one_that_is_told(toolkit, contract):
    """Where values may differ, they still mean the same."""
    theirs = toolkit(contract)["env"]
    env, _ = ours(contract)
    assert json.loads(env["SM_USER_ARGS"]) == json.loads(theirs["SM_USER_ARGS"])
    assert sorted(json.loads(env["SM_HOSTS"])) == sorted(json.loads(theirs["SM_HOSTS"]))
    told, known = json.loads(env["SM_TRAINING_ENV"]), json.loads(theirs["SM_TRAINING_ENV"])
    assert set(known) <= set(told)
    for key in ("instance_groups", "is_hetero", "current_instance_group_hosts"):
        assert told[key] == known[key], key
    assert set(known["distribution_hosts"]) <= set(told["distribution_hosts"])
    assert told["is_master"] == (told["current_host"] == told["master_hostname"])


@pytest.mark.parametrize("row", DIFFERENT)
def test_every_told_difference_is_one(toolkit, row):
    """No row of docs/migration.md is out of date: each differs in this contract."""
    contract = {
        "hyperparameters": {
            "sagemaker_program": "train.py",
            "sagemaker_submit_directory": "s3://bucket/code.tar.gz",
            "sagemaker_container_log_level": "INFO",
            "sagemaker_odd": "NaN",
            "sagemaker_mpi_enabled": "true",
            "x": "NaN",
            "n": "1e5",
        },
        "resourceconfig": {
            "current_host": "algo-2",
            "hosts": ["algo-1", "algo-10", "algo-2"],
            "network_interface_name": "ethwe",
            "current_group_name": "a",
            "instance_groups": [
                {"instance_group_name": "a", "instance_type": "t", "hosts": ["algo-10", "algo-2"]},
                {"instance_group_name": "b", "instance_type": "t", "hosts": ["algo-1"]},
            ],
        },
        "inputdataconfig": {},
    }
    theirs = toolkit(contract)["env"]
    env, _ = ours(contract)
    env["SM_USER_ARGS"] = json.dumps(["--n", "1e5", "--x", "NaN"])  # In the default mode.
    names = [name for name in theirs if re.fullmatch(row.replace("*", ".*"), name)]
    if row == "SM_NUM_CPUS":
        return  # The toolkit's answer is fixed in the test; the difference is the machine's.
    assert any(env[name] != theirs[name] for name in names)
