"""Contracts that nobody would write: the harness ends well whatever it is sent."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

import muster.train
from muster.channel.opening import alone
from muster.model import Outcome, Plan
from muster.plan.reserved import TABLE

EXAMPLES = 2000
PATH = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
FILES = ("hyperparameters", "resourceconfig", "inputdataconfig")
SECRET = "hunter2hunter2"
"""A part of what is sent under the name of a secret, and in none of what the harness writes."""

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
odd_names = st.sampled_from(["ALGO-1.x", "", "a/../b", "ü", "\0", "-x", "a b", "a=b,c=d"])
hosts = st.lists(
    st.sampled_from(["algo-1", "algo-2", "algo-10-x9y8z", "10.0.0.1", "a.b.c"]) | odd_names,
    min_size=1,
    max_size=4,
)
reserved = st.sampled_from(
    [
        "sagemaker_submit_directory",
        "sagemaker_container_log_level",
        "sagemaker_torch_distributed_enabled",
        "sagemaker_mpi_enabled",
        "sagemaker_mpi_num_of_processes_per_host",
        "sagemaker_distribution_instance_groups",
        "sagemaker_progam",
        "_tuning_objective_metric",
        "mp_parameters",
    ]
)
values = (
    st.sampled_from(["true", "2", "20", '["g"]', "NaN", "1e999", "null", "a\0b", "/"])
    | st.text(max_size=12)
    | anything.map(json.dumps)
    | anything
)


def _spoilt(good: st.SearchStrategy[Any], keys: list[str]) -> st.SearchStrategy[Any]:
    """Objects of which two in three are good, and one in three has a member of any kind."""
    bad = st.dictionaries(st.sampled_from(keys), anything, min_size=1, max_size=1)
    return st.tuples(good, st.just({}) | st.just({}) | bad).map(lambda pair: pair[0] | pair[1])


@st.composite
def resources(draw: st.DrawFn) -> dict[str, Any]:
    """A cluster: some of the keys that a job may have."""
    listed = draw(hosts)
    some = st.lists(st.sampled_from(listed), max_size=2)
    group = st.fixed_dictionaries(
        {"instance_group_name": st.sampled_from(["g", "h"]), "hosts": some},
        optional={"instance_type": st.text(max_size=3)},
    )
    keys = ["instance_group_name", "instance_type", "hosts"]
    cluster: dict[str, Any] = {"current_host": draw(st.sampled_from(listed)), "hosts": listed}
    return cluster | draw(
        st.fixed_dictionaries(
            {},
            optional={
                "current_group_name": st.sampled_from(["g", "h"]),
                "current_instance_type": st.text(max_size=4),
                "instance_groups": st.lists(_spoilt(group, keys), max_size=2),
                "network_interface_name": st.sampled_from(["lo", "eth0", "ethwe", "\0"]),
                "topology": st.none() | st.just([{"hostName": "algo-1", "capacityUnitId": "0"}]),
            },
        )
    )


RESOURCES = [
    "current_host",
    "hosts",
    "current_group_name",
    "current_instance_type",
    "instance_groups",
    "network_interface_name",
    "topology",
]
channels = st.dictionaries(
    st.sampled_from(["train", "my-data", "..", "a/b", "a=b", ""]) | st.text(max_size=5),
    st.fixed_dictionaries({}, optional={"TrainingInputMode": st.just("Pipe") | anything})
    | anything,
    max_size=4,
)
around = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
secret_texts = st.tuples(around, around).map(SECRET.join)
secrets = st.dictionaries(
    st.sampled_from(["hf_token", "password", "WANDB_API_KEY", "k.secret"]),
    secret_texts
    | secret_texts.map(json.dumps)
    | secret_texts.map(lambda text: json.dumps({"key": [text]}))
    | secret_texts.map(lambda text: [text]),
    max_size=2,
)
hyperparameters = st.tuples(
    secrets,
    st.just({}) | st.just({"sagemaker_program": '"train.py"'}),
    st.dictionaries(st.text(max_size=6), values, max_size=4),
    st.just({}) | st.just({}) | st.dictionaries(reserved, values, max_size=2),
).map(lambda parts: {key: value for part in parts for key, value in part.items()})


def _file(objects: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes | None]:
    """The bytes of a file: nearly always the object as JSON, else cut off, of another kind."""
    text = objects.map(lambda value: json.dumps(value).encode())
    cut = st.tuples(text, st.integers(0, 20)).map(lambda pair: pair[0][: pair[1]])
    other = anything.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=20)
    return st.integers(0, 19).flatmap(
        lambda roll: {7: cut, 11: other, 13: st.none()}.get(roll, text)
    )


env = st.dictionaries(
    st.sampled_from(
        [
            "MUSTER_NPROC",
            "MUSTER_ARGS",
            "MUSTER_ADDRESSES",
            "SAGEMAKER_SUBMIT_DIRECTORY",
            "MUSTER_LAUNCHER",
            "TRAINING_JOB_NAME",
        ]
    ),
    st.sampled_from(["2", "toolkit", "plain", "torchrun", "a=b", "/", "file://"])
    # What a variable can hold: anything but NUL and halves of surrogate pairs.
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    max_size=1,
).map(lambda chosen: {"SAGEMAKER_PROGRAM": "train.py", **chosen})
contracts = st.fixed_dictionaries(
    {
        "hyperparameters": _file(hyperparameters),
        "resourceconfig": _file(_spoilt(resources(), RESOURCES)),
        "inputdataconfig": _file(channels),
        "env": st.just({"SAGEMAKER_PROGRAM": "train.py"}) | env,
    }
)


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A folder that stands for /opt/ml and has a script."""
    folder = tmp_path_factory.mktemp("fuzz") / "ml"
    (folder / "input" / "config").mkdir(parents=True)
    (folder / "code").mkdir()
    (folder / "code" / "train.py").write_text("")
    return folder


def _write(base: Path, contract: dict[str, Any]) -> None:
    for name in FILES:
        path = base / "input" / "config" / f"{name}.json"
        path.unlink(missing_ok=True)
        if contract[name] is not None:
            path.write_bytes(contract[name])


def _check(base: Path, status: int, log: str) -> None:
    """What must hold however a job ends."""
    failure = base / "output" / "failure"
    assert "Traceback" not in log
    assert "muster itself failed" not in log
    assert SECRET not in log
    for path in (base / "output").rglob("*"):
        assert path.is_dir() or SECRET not in path.read_text(encoding="utf-8"), path
    assert (status != 0) == failure.exists(), log
    if failure.exists():
        first, second, *_ = failure.read_text(encoding="utf-8").splitlines()
        assert first.strip()
        assert second.startswith("muster kind=")
        failure.unlink()


@pytest.fixture
def end(base, capfd, monkeypatch):
    """A function from a contract to the status, with everything but the launch. It fails when a
    contract ends otherwise than legibly."""

    def launch(plan: Plan, *_: object) -> Outcome:
        for text in (*plan.argv, *plan.env, *plan.env.values(), *plan.rank_env.values()):
            assert b"\0" not in os.fsencode(text)
        for name in plan.rank_env:
            assert name
            assert "=" not in name
        return Outcome(0)

    monkeypatch.setattr(muster.train, "launch", launch)
    # The other hosts will not come.
    monkeypatch.setattr(
        muster.train,
        "open_meeting",
        lambda _, host, __, settings, inbox: alone(host, settings, inbox),
    )
    # What a run changes for its whole process.
    monkeypatch.setattr("muster.log._name", "muster")
    monkeypatch.setattr("muster.mask._on", True)
    monkeypatch.setattr("muster.mask._values", set())
    monkeypatch.setattr("muster.plan.facts._claim", lambda _port: True)
    # Names that don't resolve would cost two seconds each.
    monkeypatch.setattr("socket.gethostbyname", lambda _host: "127.0.0.1")
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 0))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: found)

    def run(contract: dict[str, Any]) -> int:
        _write(base, contract)
        env = {**contract["env"], "SAGEMAKER_BASE_DIR": str(base), "PATH": PATH}
        env["AWS_SECRET_ACCESS_KEY"] = SECRET
        status = muster.train.train([], env)
        _check(base, status, "".join(capfd.readouterr()))
        return status

    return run


@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(contract=contracts)
def test_any_contract_ends_well(end, contract):
    """A contract is run or refused: no crash, no traceback of the harness, no secret in what it
    writes, a failure file exactly when the status isn't 0, and nothing that the kernel would refuse
    to start."""
    event(f"status {end(contract)}")  # --hypothesis-show-statistics: half of them run


KINDS = [None, True, 0, -1.5, "", "x", "\0", [], ["x"], [1], [[]], [None], {}, {"x": 1}, {"": []}]
CLUSTER = {
    "current_host": "algo-1",
    "hosts": ["algo-1", "algo-2"],
    "current_group_name": "g",
    "current_instance_type": "ml.x",
    "instance_groups": [
        {"instance_group_name": "g", "instance_type": "ml.x", "hosts": ["algo-1", "algo-2"]}
    ],
    "network_interface_name": "lo",
    "topology": None,
}


def test_every_key_may_hold_anything(end):
    """Each key of each file, with a value of each kind that JSON has: run or refused, legibly."""
    (group,) = CLUSTER["instance_groups"]
    keys = ["sagemaker_program", "sagemaker_submit_directory", *TABLE]
    spoilt = [
        *({"resourceconfig": CLUSTER | {key: value}} for key in CLUSTER for value in KINDS),
        *(
            {"resourceconfig": CLUSTER | {"instance_groups": [group | {key: value}]}}
            for key in group
            for value in KINDS
        ),
        *({"inputdataconfig": {"train": value}} for value in KINDS),
        *({"inputdataconfig": {"train": {"TrainingInputMode": value}}} for value in KINDS),
        *({"hyperparameters": {key: value}} for key in [*keys, "lr"] for value in KINDS),
    ]
    good = {"hyperparameters": {}, "resourceconfig": CLUSTER, "inputdataconfig": {}}
    statuses = set()
    for changes in spoilt:
        files = {name: json.dumps(value).encode() for name, value in (good | changes).items()}
        statuses.add(end(files | {"env": {"SAGEMAKER_PROGRAM": "train.py"}}))
    assert statuses == {0, 70, 71, 73}


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(values=st.dictionaries(st.text(max_size=6), st.text(max_size=12), max_size=5))
@example(values={"größe": "日本", "": "", "-": "--", "a b": "\x7f\x1b[31m", "=": "="})
@example(values={"nul": "\0"})
@example(values={"half": "\ud800"})
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_any_hyperparameters_reach_a_real_script(base, values, locale):
    """Through the whole harness as a process, under LANG=C as well, a script gets each value as
    it was sent, or the job is refused with the reason."""
    raw = {f"h{key}": value for key, value in values.items()} | {"sagemaker_program": "show.py"}
    (base / "code" / "show.py").write_text(
        "import os, sys\nsys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    )
    _write(base, dict.fromkeys(FILES) | {"hyperparameters": json.dumps(raw).encode()})
    done = subprocess.run(
        [sys.executable, "-I", "-m", "muster", "train"],
        env={
            "PATH": PATH,
            "SAGEMAKER_BASE_DIR": str(base),
            "MUSTER_LAUNCHER": "plain",
            "LANG": locale,
            "LC_ALL": locale,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    _check(base, done.returncode, done.stderr.decode("utf-8"))
    refused = any("\0" in text or _is_half(text) for pair in values.items() for text in pair)
    assert done.returncode == (70 if refused else 0), done.stderr
    if not refused:
        given = done.stdout.split(b"\0") if done.stdout else []
        assert sorted(given[1::2]) == sorted(
            argument for value in values.values() for argument in _arguments(value)
        )


def _is_half(text: str) -> bool:
    return any(0xD800 <= ord(character) < 0xE000 for character in text)


def _arguments(value: str) -> list[bytes]:
    """What MUSTER_ARGS=plain makes of a value: one argument, or none of null."""
    try:
        decoded = json.loads(value)
    except ValueError:
        return [value.encode()]
    if decoded is None:
        return []
    if isinstance(decoded, (list, dict)):
        return [json.dumps(decoded, ensure_ascii=False, separators=(",", ":")).encode()]
    return [(str(decoded) if isinstance(decoded, (str, bool)) else value).encode()]
