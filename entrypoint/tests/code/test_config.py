import json
from typing import Any

import pytest

from muster.code import add_config
from muster.contract.argv import MODES
from muster.contract.hyperparameters import decode
from muster.errors import ContractError
from muster.model import Code, Paths
from muster.settings import read_settings


@pytest.fixture
def configured(opt_ml, make_job):
    """Return a function that gives a job, with these hyperparameters, its configuration file."""

    def configure(name: str, sent: dict[str, str] | None = None, env: dict[str, str] | None = None):
        items = tuple(decode(key, text) for key, text in sorted((sent or {}).items()))
        reserved = {"muster_config": name} if name else {}
        paths = Paths(str(opt_ml.base))
        job = make_job(paths=paths, reserved=reserved, hyperparameters=items)
        code = Code(f"{opt_ml.base}/code", "train.py", ("python3", "train.py"))
        return add_config(job, code, read_settings(env or {}))

    return configure


def values(job: Any) -> dict[str, Any]:
    return {item.key: item.value for item in job.hyperparameters}


def test_a_job_without_one(configured):
    """Nothing is read and nothing is said."""
    job = configured("", {"lr": "0.1"})
    assert (values(job), job.notes) == ({"lr": 0.1}, ())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "c.json",
            '{"lr": 1e-3, "v": 1.10, "labels": ["a", "b"], "o": {"x": {"y": 1}}, "b": true, "s": "a b", "n": null}',
        ),
        ("c.yaml", "lr: 1e-3\nv: 1.10\nlabels: [a, b]\no: {x: {y: 1}}\nb: true\ns: a b\nn:\n"),
        (
            "c.yml",
            "---\nlr: 1e-3\nv: 1.10\nlabels:\n- a\n- b\no:\n  x:\n    y: 1\nb: yes\ns: 'a b'\nn: ~\n",
        ),
    ],
)
def test_arguments_and_values(configured, opt_ml, name: str, text: str):
    """Numbers keep their form as arguments and are numbers as values; what is nested is JSON."""
    opt_ml.file(f"code/{name}", text)
    job = configured(name)
    assert values(job) == {
        "lr": 0.001,
        "v": 1.1,
        "labels": ["a", "b"],
        "o": {"x": {"y": 1}},
        "b": True,
        "s": "a b",
        "n": None,
    }
    assert MODES["plain"](job.hyperparameters) == (
        "-b",
        "True",
        "--labels",
        '["a","b"]',
        "--lr",
        "1e-3",
        "-o",
        '{"x":{"y":1}}',
        "-s",
        "a b",
        "-v",
        "1.10",
    )
    assert job.notes == (f"hyperparameters from {opt_ml.base}/code/{name}: 7",)


@pytest.mark.parametrize(
    ("text", "value", "argument"),
    [
        ("12e45678", "12e45678", "12e45678"),
        ("007", "007", "007"),
        ("'5'", "5", "5"),
        ("1_000", "1_000", "1_000"),
        ("2026-12-01", "2026-12-01", "2026-12-01"),
        ("12345678901234567890123", 12345678901234567890123, "12345678901234567890123"),
        ("&a x", "x", "x"),
    ],
)
def test_scalars_of_yaml(configured, opt_ml, text: str, value: Any, argument: str):
    """A scalar means what the hyperparameter of the same text means, whatever YAML takes it for."""
    opt_ml.file("code/c.yaml", f"k: {text}\n")
    job = configured("c.yaml")
    assert values(job) == {"k": value}
    assert MODES["plain"](job.hyperparameters) == ("-k", argument)


def test_the_jobs_own_win(configured, opt_ml):
    """What was sent explicitly is never replaced, and what is hidden is told."""
    path = opt_ml.file("code/c.json", '{"lr": 1, "epochs": 3}')
    job = configured("c.json", {"lr": "0.5", "a": "x"})
    assert values(job) == {"a": "x", "epochs": 3, "lr": 0.5}
    assert job.notes[-1] == f"of {path}, the job's own hyperparameters win: lr"


def test_a_file_of_a_channel(configured, opt_ml):
    """CHANNEL/FILE names it where the code has no such file; an absolute path is good, too."""
    path = opt_ml.file("input/data/config/c.json", '{"lr": 1}')
    assert values(configured("config/c.json")) == {"lr": 1}
    assert values(configured("", env={"MUSTER_CONFIG": str(path)})) == {"lr": 1}
    opt_ml.file("code/config/c.json", '{"lr": 2}')
    job = configured("config/c.json", env={"MUSTER_CONFIG": str(path)})
    assert values(job) == {"lr": 2}
    assert "hyperparameter muster_config wins over" in job.notes[0]


def test_a_list_that_no_hyperparameter_could_hold(configured, opt_ml):
    """There is no limit: 140 labels, and a megabyte."""
    labels = [f"label {number}" for number in range(60_000)]
    opt_ml.file("code/c.json", json.dumps({"labels": labels}))
    assert values(configured("c.json")) == {"labels": labels}


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        (
            "c.json",
            None,
            r"the configuration c.json \(hyperparameter muster_config\) does not exist",
        ),
        ("c.json", "{", "c.json is no JSON: "),
        ("c.json", "[1]", "c.json is no mapping"),
        (
            "c.yaml",
            "a: b: c",
            "c.yaml can't be read as YAML: line 1: mapping values are not allowed in",
        ),
        ("c.yaml", "!!python/object:os.x {}", "c.yaml can't be read as YAML: line 1: "),
        ("c.yaml", "- a", "c.yaml is no mapping"),
        ("c.yaml", "1: a", "the name 1 is no text"),
        ("c.yaml", "a: &x [*x]", "'a' has no form in JSON"),
        ("c.yaml", "a: {1: {[1]: 2}}", "c.yaml can't be read as YAML|'a' has no form in JSON"),
        ("c.json", '{"a": "x\\u0000"}', "c.json: 'a' holds a NUL byte"),
        ("c.json", '{"a": "\\ud800"}', "c.json: 'a' holds half a surrogate pair"),
        (
            "c.json",
            '{"sagemaker_program": "x.py"}',
            "c.json: 'sagemaker_program' is the container's own",
        ),
        ("c.json", b"\xff", "c.json can't be read"),
        ("c.json", "[" * 100_000, "c.json is no JSON: "),
    ],
)
def test_what_is_refused(configured, opt_ml, name: str, text: Any, what: str):
    """A file that can't be understood is named, with the key or the line, and what to do."""
    if isinstance(text, bytes):
        opt_ml.file(f"code/{name}", "").write_bytes(text)
    elif text is not None:
        opt_ml.file(f"code/{name}", text)
    with pytest.raises(ContractError, match=what) as error:
        configured(name)
    assert error.value.remedy or "can't be read" in what


def test_an_empty_file(configured, opt_ml):
    """It says nothing."""
    opt_ml.file("code/c.yaml", "# nothing yet\n")
    assert values(configured("c.yaml", {"a": "1"})) == {"a": 1}
