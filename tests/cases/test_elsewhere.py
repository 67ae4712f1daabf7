"""Local mode, pipes, secrets."""

from __future__ import annotations

import json
import os

import pytest

SUFFIXED = {
    "current_host": "algo-2-x9y8z",
    "hosts": ["algo-1-ab12c", "algo-2-x9y8z"],
    "network_interface_name": "eth0",
    "current_instance_type": "local",
}


def test_case_101_local_mode(contract, tmp_path):
    """Names with a suffix, a file:// submit directory and no credentials are a job like any
    other: nothing takes a host for algo-N."""
    source = tmp_path / "my code"
    source.mkdir()
    (contract.base / "code" / "train.py").rename(source / "train.py")
    contract.config("resourceconfig", SUFFIXED)
    contract.hyperparameters(
        sagemaker_submit_directory=json.dumps(f"file://{source}".replace(" ", "%20"))
    )
    # No other host will come, so nobody is to wait for them.
    env = {"SM_STUDIO_LOCAL_MODE": "True", "MUSTER_EXEC": "1"}
    env |= {name: "" for name in os.environ if name.startswith("AWS_")}
    ended = contract.run(env=env)
    assert ended.status == 0, ended.log
    assert ended.answer["cwd"] == str(source)
    assert ended.env["SM_CURRENT_HOST"] == "algo-2-x9y8z"
    assert ended.env["SM_CURRENT_HOST_RANK"] == "1"
    assert ended.env["SM_MASTER_ADDR"] == "algo-1-ab12c"
    assert "[muster algo-2-x9y8z]" in ended.log


def test_case_101_two_hosts_with_one_command(contract):
    """`muster local` runs two hosts on one machine without Docker and without AWS."""
    contract.script("import os; print('host', os.environ['SM_CURRENT_HOST'], flush=True)")
    ended = contract.run("local", str(contract.base / "code" / "train.py"), "--hosts", "2")
    assert ended.status == 0, ended.log
    assert "host algo-1" in ended.log
    assert "host algo-2" in ended.log


@pytest.mark.parametrize(("nproc", "warned"), [("1", False), ("2", True)])
def test_case_098_pipe_mode(contract, nproc, warned):
    """A FIFO is neither opened nor listed before the script reads it; its mode is exposed, and
    several ranks at one FIFO are warned of."""
    contract.hyperparameters()
    contract.config("inputdataconfig", {"train": {"TrainingInputMode": "Pipe"}})
    data = contract.base / "input" / "data"
    data.mkdir(parents=True)
    os.mkfifo(data / "train_0")
    # Without a launcher for real: a plan looks at everything that a job does.
    ended = contract.run("plan", env={"MUSTER_LAUNCHER": "torchrun", "MUSTER_NPROC": nproc})
    assert ended.status == 0, ended.log
    assert "channels: train (Pipe)" in ended.log
    assert ("ranks share one FIFO" in ended.log) == warned
    ended = contract.run()
    assert ended.status == 0, ended.log
    assert ended.env["SM_CHANNEL_TRAIN"] == f"{data}/train"
    assert json.loads(ended.env["SM_INPUT_DATA_CONFIG"])["train"]["TrainingInputMode"] == "Pipe"


SECRETS = {
    "hf_token": "hf_hunter2",
    "wandb_api_key": "hunter2",
    "password": "hunter2",
    "index": "https://me:hunter2@pypi.example/simple",
}


@pytest.mark.parametrize("mode", ["plain", "equals"])
@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "raise ValueError('https://me:hunter2@pypi.example')",
        # What many an error does: it repeats what it was given.
        "raise ValueError(str(sys.argv))",
        "import argparse\nargparse.ArgumentParser().parse_args()",
    ],
)
def test_case_104_secrets_stay_hidden(contract, ending, mode):
    """Neither the log nor the failure file nor the record shows a secret of the job; the script
    gets it."""
    contract.hyperparameters(**SECRETS)
    contract.script(f"import sys\nassert 'hf_hunter2' in ' '.join(sys.argv)\n{ending}")
    env = {
        "MUSTER_ARGS": mode,
        "PIP_INDEX_URL": "https://me:hunter2@pypi.example/simple",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
    }
    ended = contract.run(env=env)
    assert ended.status == (0 if ending == "pass" else 2 if "argparse" in ending else 1), ended.log
    ours = [line for line in ended.log.splitlines() if line.startswith("[muster ")]
    assert "hf_token" in "\n".join(ours)
    assert "hunter2" not in "\n".join(ours)
    for path in (contract.base / "output").rglob("*"):
        assert path.is_dir() or "hunter2" not in path.read_text(encoding="utf-8"), path


def test_case_104_the_switch(contract):
    """MUSTER_MASK=0 shows them."""
    contract.hyperparameters(**SECRETS)
    assert "--hf_token hf_hunter2" in contract.run(env={"MUSTER_MASK": "0"}).log


def test_case_104_out_of_the_process_list(contract):
    """With MUSTER_ARGS=none a secret is in the environment alone, which other users can't list."""
    contract.hyperparameters(**SECRETS)
    contract.script("print('HERE', open('/proc/self/cmdline').read())")
    ended = contract.run(env={"MUSTER_ARGS": "none"})
    assert ended.status == 0, ended.log
    assert "HERE" in ended.log
    assert "hunter2" not in ended.log
