import json
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.contract import hyperparameters
from muster.contract.argv import plain
from muster.contract.exports import sm_exports
from muster.errors import ContractError
from muster.model import Channel, Code, Job

anything = st.text(st.characters(codec="utf-8"), max_size=12)


CODE = Code("/opt/ml/code", "train.py", ("python3", "/opt/ml/code/train.py"))


def export_job(job: Job) -> dict[str, str]:
    """The variables of a job that starts train.py."""
    return sm_exports(job, CODE, plain(job.hyperparameters), (job.hosts[0], 7777))


@pytest.fixture(scope="session")
def exports(make_job: Callable[..., Job]) -> Callable[..., dict[str, str]]:
    """Return a function from hyperparameters as they were sent to the SM_* variables."""

    def export(raw: dict[str, Any], **changes: Any) -> dict[str, str]:
        user = hyperparameters.split(raw).user
        return export_job(make_job(user={item.key: item for item in user}, **changes))

    return export


def strict(text: str) -> Any:
    """Parse JSON as any other language would: without NaN and Infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON, in {text}")

    return json.loads(text, parse_constant=refuse)


def test_the_variables_of_a_plain_job(exports):
    """Folders, hosts, machine and job have the names and forms of AWS's toolkit."""
    env = exports(
        {"lr": "0.1"},
        hosts=("algo-1", "algo-2"),
        current_host="algo-2",
        gpus=4,
        resource_config={"current_host": "algo-2", "topology": None},
        input_data_config={"train": {"TrainingInputMode": "File"}},
        channels=(Channel("train", "/opt/ml/input/data/train", "File"),),
    )
    told = json.loads(env.pop("SM_TRAINING_ENV"))
    assert told["hyperparameters"] == {"lr": 0.1}
    assert told["is_master"] is False
    assert env == {
        "SM_HOSTS": '["algo-1","algo-2"]',
        "SM_HOST_COUNT": "2",
        "SM_CURRENT_HOST": "algo-2",
        "SM_CURRENT_HOST_RANK": "1",
        "SM_CURRENT_INSTANCE_TYPE": "ml.m5.large",
        "SM_CURRENT_INSTANCE_GROUP": "homogeneousCluster",
        "SM_NETWORK_INTERFACE_NAME": "eth0",
        "SM_NUM_CPUS": "8",
        "SM_NUM_GPUS": "4",
        "SM_INPUT_DIR": "/opt/ml/input",
        "SM_INPUT_DATA_DIR": "/opt/ml/input/data",
        "SM_INPUT_CONFIG_DIR": "/opt/ml/input/config",
        "SM_MODEL_DIR": "/opt/ml/model",
        "SM_OUTPUT_DIR": "/opt/ml/output",
        "SM_OUTPUT_DATA_DIR": "/opt/ml/output/data",
        "SM_OUTPUT_INTERMEDIATE_DIR": "/opt/ml/output/intermediate",
        "SM_OUTPUT_FAILURE": "/opt/ml/output/failure",
        "SM_RESOURCE_CONFIG": '{"current_host":"algo-2","topology":null}',
        "SM_INPUT_DATA_CONFIG": '{"train":{"TrainingInputMode":"File"}}',
        "SM_CHANNELS": '["train"]',
        "SM_CHANNEL_TRAIN": "/opt/ml/input/data/train",
        "SM_HPS": '{"lr":0.1}',
        "SM_HP_LR": "0.1",
        "SM_USER_ARGS": '["--lr","0.1"]',
        "SM_MODULE_DIR": "/opt/ml/code",
        "SM_SOURCE_DIR": "/opt/ml/code",
        "SM_MODULE_NAME": "train",
        "SM_USER_ENTRY_POINT": "train.py",
        "SM_ENTRY_SCRIPT": "train.py",
        "SM_MASTER_ADDR": "algo-1",
        "SM_MASTER_PORT": "7777",
        "SM_CURRENT_INSTANCE_GROUP_HOSTS": "[]",
        "SM_INSTANCE_GROUPS": "[]",
        "SM_INSTANCE_GROUPS_DICT": "{}",
        "SM_DISTRIBUTION_INSTANCE_GROUPS": "[]",
        "SM_IS_HETERO": "false",
        "SM_NUM_NEURONS": "0",
        "SM_FRAMEWORK_PARAMS": "{}",
        "SM_FRAMEWORK_MODULE": "",
        "SM_LOG_LEVEL": "20",
        "SAGEMAKER_JOB_NAME": "job",
        "SAGEMAKER_REGION": "",
        "CURRENT_HOST": "algo-2",
    }


def test_channels_have_both_spellings(exports):
    """A channel is found under AWS's name, and under one that a shell can read."""
    names = ["training", "my-data", "val.v2", "Mixed"]
    channels = tuple(Channel(name, f"/data/{name}", "File") for name in names)
    env = exports({}, channels=channels)
    found = {key: value for key, value in env.items() if key.startswith("SM_CHANNEL_")}
    assert found == {
        "SM_CHANNEL_TRAINING": "/data/training",
        "SM_CHANNEL_MY-DATA": "/data/my-data",
        "SM_CHANNEL_MY_DATA": "/data/my-data",
        "SM_CHANNEL_VAL.V2": "/data/val.v2",
        "SM_CHANNEL_VAL_V2": "/data/val.v2",
        "SM_CHANNEL_MIXED": "/data/Mixed",
    }
    assert env["SM_CHANNELS"] == '["Mixed","my-data","training","val.v2"]'


def test_hyperparameters_have_both_spellings(exports):
    """A key that is no shell name is exported as AWS does, and once more for shells."""
    env = exports({"batch-size": "2", "optim.lr": "3", "k": "1", "a=b": "4"})
    found = {key: value for key, value in env.items() if key.startswith("SM_HP_")}
    assert found == {
        "SM_HP_BATCH-SIZE": "2",
        "SM_HP_BATCH_SIZE": "2",
        "SM_HP_OPTIM.LR": "3",
        "SM_HP_OPTIM_LR": "3",
        "SM_HP_K": "1",
        "SM_HP_A_B": "4",
    }


def test_a_real_name_wins_over_an_alias(exports):
    """The alias of one key never hides another key's own variable."""
    env = exports({"a-b": "alias", "a.b": "alias too", "a_b": "own"})
    assert env["SM_HP_A_B"] == "own"


@pytest.mark.parametrize(
    ("raw", "exported"),
    [
        ("true", "true"),
        ("false", "false"),
        ("null", ""),
        ("False", "False"),
        ("1e5", "1e5"),
        ("1.10", "1.10"),
        (" 3", " 3"),
        ('"x y"', "x y"),
        ('["a", "b"]', '["a","b"]'),
        ('{"a": {"b": 1}}', '{"a":{"b":1}}'),
        ("NaN", "NaN"),
    ],
)
def test_form_of_one_hyperparameter(exports, raw: str, exported: str):
    """SM_HP_* has the script's text; booleans, lists and objects as JSON; null as nothing."""
    assert exports({"x": raw})["SM_HP_X"] == exported


def test_sm_hps_has_the_meaning(exports):
    """SM_HPS holds real booleans and numbers, and text where text was meant."""
    raw = {"a": "true", "b": "False", "c": "1e5", "d": "007", "e": "null", "f": '"5"', "g": "[1]"}
    assert json.loads(exports(raw)["SM_HPS"]) == {
        "a": True,
        "b": "False",
        "c": 100000.0,
        "d": "007",
        "e": None,
        "f": "5",
        "g": [1],
    }


@pytest.mark.parametrize(
    "raw",
    [
        "NaN",
        "-Infinity",
        "12e45678",
        "[NaN]",
        '{"a": [Infinity]}',
        "[1e999]",
        float("nan"),
        [float("inf")],
    ],
    ids=str,
)
def test_sm_hps_is_json_for_everyone(exports, raw: Any):
    """NaN and Infinity, which JSON has not, never get into SM_HPS, however they were sent."""
    strict(exports({"x": raw})["SM_HPS"])


def test_reserved_ones_are_not_exported(exports):
    """The container's own hyperparameters are neither in SM_HPS nor among the variables."""
    env = exports({"sagemaker_program": "train.py", "_tuning_objective_metric": "loss"})
    assert env["SM_HPS"] == "{}"
    assert not [key for key in env if key.startswith("SM_HP_")]


def test_deep_nesting_can_be_exported(make_job):
    """A hyperparameter that was accepted can be exported, also from further down the stack."""

    def deeper(frames: int, job: Job) -> dict[str, str]:
        return deeper(frames - 1, job) if frames else export_job(job)

    for depth in range(sys.getrecursionlimit() - 100, sys.getrecursionlimit()):
        user = hyperparameters.split({"deep": "[" * depth + "]" * depth}).user
        env = deeper(20, make_job(user={"deep": user[0]}))
        assert env["SM_HP_DEEP"] == "[" * depth + "]" * depth


@given(st.dictionaries(anything, anything, max_size=5))
def test_variables_agree_with_the_arguments(exports, raw: dict[str, str]):
    """What SM_USER_ARGS, SM_HPS and SM_HP_* say is what the script is given."""
    try:
        user = hyperparameters.split(raw).user
        env = exports(raw)
    except ContractError:
        return
    argv = plain(user)
    assert json.loads(env["SM_USER_ARGS"]) == list(argv)
    assert strict(env["SM_HPS"]) == {item.key: item.value for item in user}
    given_to_script = dict(zip(argv[::2], argv[1::2], strict=True))
    uppers = [item.key.upper() for item in user]
    for item in user:
        unique = uppers.count(item.key.upper()) == 1 and re.fullmatch(r"\w+", item.key.upper())
        if unique and item.value is not None and not isinstance(item.value, bool):
            option = f"-{item.key}" if len(item.key) == 1 else f"--{item.key}"
            assert env["SM_HP_" + item.key.upper()] == given_to_script[option]


@given(st.dictionaries(anything, anything, max_size=5))
def test_every_variable_can_be_set(exports, raw: dict[str, str]):
    """No name and no value of a variable is one that the kernel refuses."""
    try:
        env = exports(raw)
    except ContractError:
        return
    for key, value in env.items():
        assert key
        assert "=" not in key
        assert b"\0" not in (key + value).encode()
