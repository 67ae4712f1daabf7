"""Hyperparameters, from the SDKs and from callers that use none."""

from __future__ import annotations

import json

import pytest

LAUNCHERS = ["plain", "torchrun"]


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    "value",
    [
        pytest.param("a b", id="case_011_a_blank"),
        pytest.param("$HOME", id="case_012_a_variable"),
        pytest.param("*.py", id="case_012_a_pattern"),
        pytest.param("x; touch pwned", id="case_012_a_command"),
        pytest.param("`touch pwned` $(touch pwned) & | > pwned", id="case_012_more_commands"),
        pytest.param('it\'s "quoted"\\\n\tand on two lines', id="case_012_quotes_and_newlines"),
    ],
)
def test_case_011_and_012_no_shell_sees_a_value(contract, launcher, value):
    """A value arrives as one argument, byte for byte, and nothing in it is run."""
    contract.hyperparameters(note=value)
    ended = contract.run(env={"MUSTER_LAUNCHER": launcher})
    assert ended.status == 0, ended.log
    assert ended.argv == ["--note", value]
    assert not list(contract.base.rglob("pwned"))


def test_case_013_plain_strings(contract):
    """A caller that JSON-encodes nothing is understood, also in the reserved keys."""
    contract.config(
        "hyperparameters",
        {"sagemaker_program": "train.py", "epochs": "1", "lr": "0.0001", "opt": "adam"},
    )
    ended = contract.run()
    assert ended.argv == ["--epochs", "1", "--lr", "0.0001", "--opt", "adam"]


def test_case_014_inner_quotes(contract):
    """Encoded strings lose exactly one level of quotes."""
    contract.hyperparameters(
        objective='"reg:squarederror"', data='"/opt/ml/x"', twice=json.dumps('"y"')
    )
    ended = contract.run()
    want = ["--data", "/opt/ml/x", "--objective", "reg:squarederror", "--twice", '"y"']
    assert ended.argv == want


def test_case_015_booleans(contract):
    """By default a boolean is Python's True or False behind its key; as flags, true is a bare
    key and false nothing; SM_HPS has real booleans."""
    contract.hyperparameters(do_eval="false", shout="False", fp16="true")
    ended = contract.run()
    assert ended.argv == ["--do_eval", "False", "--fp16", "True", "--shout", "False"]
    want = {"do_eval": False, "fp16": True, "shout": "False"}
    assert json.loads(ended.env["SM_HPS"]) == want
    assert contract.run(env={"MUSTER_ARGS": "flags"}).argv == ["--fp16"]


def test_case_016_lists_objects_and_null(contract):
    """Lists and objects are JSON everywhere, and null is left out of the arguments."""
    contract.hyperparameters(l='["a","b"]', d='{"x": {"y": 1}}', n="null")
    ended = contract.run()
    assert ended.argv == ["-d", '{"x":{"y":1}}', "-l", '["a","b"]']
    assert json.loads(ended.env["SM_HPS"]) == {"l": ["a", "b"], "d": {"x": {"y": 1}}, "n": None}
    assert ended.env["SM_HP_L"] == '["a","b"]'
    assert (ended.env["SM_HP_D"], ended.env["SM_HP_N"]) == ('{"x":{"y":1}}', "")


SCALARS = {"ver": "1.10", "sha": "12e45678", "n": "1e5", "x": "NaN", "seed": "007", "pad": " 3"}


def test_case_017_numbers_keep_their_form(contract):
    """The script gets the text that was sent; SM_HPS is JSON for every reader."""
    contract.hyperparameters(**SCALARS)
    ended = contract.run()
    pairs = dict(zip(ended.argv[::2], ended.argv[1::2], strict=True))
    # A key of one letter is a short option.
    assert pairs == {f"{'-' if len(k) == 1 else '--'}{k}": v for k, v in SCALARS.items()}

    def refuse(name: str):
        pytest.fail(f"{name} is not JSON")

    for variable in ("SM_HPS", "SM_TRAINING_ENV"):
        json.loads(ended.env[variable], parse_constant=refuse)


def test_case_017_as_the_toolkit_renders(contract):
    """MUSTER_ARGS=toolkit is AWS's rendering, for who needs it."""
    contract.hyperparameters(ver="1.10", n="1e5", nothing="null")
    ended = contract.run(env={"MUSTER_ARGS": "toolkit"})
    assert ended.argv == ["-n", "100000.0", "--nothing", "", "--ver", "1.1"]


def test_case_018_odd_keys(contract):
    """Keys are kept, one letter is a short option, a shared variable is told, reserved keys
    never reach the script."""
    sent = {"k": "1", "batch-size": "2", "optim.lr": "3", "LR": "4", "lr": "5"}
    contract.hyperparameters(**sent, sagemaker_foo="6")
    ended = contract.run()
    argv = ended.argv
    assert dict(zip(argv[::2], argv[1::2], strict=True)) == {
        "-k": "1",
        "--batch-size": "2",
        "--optim.lr": "3",
        "--LR": "4",
        "--lr": "5",
    }
    assert ended.env["SM_HP_BATCH-SIZE"] == ended.env["SM_HP_BATCH_SIZE"] == "2"
    assert ended.env["SM_HP_OPTIM.LR"] == ended.env["SM_HP_OPTIM_LR"] == "3"
    assert "hyperparameters LR and lr share SM_HP_LR: it has that of lr" in ended.log
    assert "ignored: sagemaker_foo" in ended.log
    assert "SM_HP_SAGEMAKER_FOO" not in ended.env


def test_case_019_overrides_as_hydra_takes_them(contract):
    """MUSTER_ARGS=equals gives key=value, none gives nothing; SM_HPS is there both times."""
    contract.hyperparameters(**{"trainer": "gpu", "+exp": "a"})
    ended = contract.run(env={"MUSTER_ARGS": "equals"})
    assert ended.argv == ["+exp=a", "trainer=gpu"]
    ended = contract.run(env={"MUSTER_ARGS": "none"})
    assert ended.argv == []
    assert json.loads(ended.env["SM_HPS"]) == {"trainer": "gpu", "+exp": "a"}


def test_case_020_no_alarm_about_plain_text(contract):
    """Good text gives no line about parsing."""
    contract.hyperparameters(b="some text")
    log = contract.run().log.lower()
    assert not any(word in log for word in ("pars", "json", "decod", "fail"))


def test_case_022_keys_of_the_service(contract):
    """What a tuning job or the SDK adds reaches neither the script nor SM_HPS."""
    contract.hyperparameters(
        _tuning_objective_metric="val:loss",
        sagemaker_job_name="j",
        sagemaker_region="us-east-1",
        lr="0.1",
    )
    ended = contract.run()
    assert ended.argv == ["--lr", "0.1"]
    assert json.loads(ended.env["SM_HPS"]) == {"lr": "0.1"} or json.loads(ended.env["SM_HPS"]) == {
        "lr": 0.1
    }
    raw = json.loads((contract.base / "input/config/hyperparameters.json").read_text())
    assert raw["_tuning_objective_metric"] == "val:loss"


def test_case_022_an_option_that_the_script_does_not_know(contract):
    """Argparse's exit 2 gives a reason that names the option."""
    contract.hyperparameters(model_dir="s3://x")
    contract.script("import argparse\nargparse.ArgumentParser().parse_args()")
    ended = contract.run()
    assert ended.status == 2
    assert "unrecognized arguments: --model_dir s3://x" in ended.failure.splitlines()[0]


def test_case_021_more_than_the_limits(contract):
    """A configuration file holds what 2,500 characters don't; the job's own values win, and a variable that
    grows too long for a process is a file."""
    labels = [f"label number {number}" for number in range(10_000)]
    contract.script(json.dumps({"labels": labels, "lr": 0.5}), name="conf.json")
    contract.script(
        """
        import json, os
        read = {n: json.load(open(os.environ[n + "_FILE"])) for n in ("SM_HPS", "SM_HP_LABELS")}
        json.dump({"env": {**read, "lr": os.environ["SM_HP_LR"]}}, open(os.environ["SM_MODEL_DIR"] + "/answer.json", "w"))
        """
    )
    contract.hyperparameters(muster_config="conf.json", lr="0.1")
    ended = contract.run(env={"MUSTER_ARGS": "none"})
    assert ended.status == 0, ended.log
    want = {"SM_HPS": {"labels": labels, "lr": 0.1}, "SM_HP_LABELS": labels, "lr": "0.1"}
    assert ended.env == want


def test_case_021_arguments_have_a_limit_too(contract):
    """An argument that no program can be given is named, with what to do."""
    contract.script(json.dumps({"labels": "x" * 200_000}), name="conf.json")
    contract.hyperparameters(muster_config="conf.json")
    ended = contract.run()
    assert ended.status != 0
    assert "labels" in ended.failure
    assert "MUSTER_ARGS=none" in ended.failure


@pytest.mark.parametrize("words", [(), ("train", "train.py")])
def test_case_023_keys_are_passed_unchanged(contract, words):
    """An underscore stays one, and a command form gets the hyperparameters too."""
    contract.hyperparameters(**{"train_batch_size": "64", "eval-batch-size": "32"})
    ended = contract.run(*words, env={"MUSTER_CODE_DIR": f"{contract.base}/code"})
    assert ended.argv == ["--eval-batch-size", "32", "--train_batch_size", "64"]
