"""Files and variables as they really come."""

from __future__ import annotations

import json

import pytest
from cluster import Cluster, Job
from engine import IMAGE, docker

WAYS = ("sagemaker_program", "SAGEMAKER_PROGRAM", "muster train SCRIPT")


@pytest.mark.parametrize("content", [None, "{}", ""], ids=["absent", "empty-object", "zero-bytes"])
def test_case_001_no_program_or_an_empty_file(contract, content):
    """Absent and {} mean nothing was sent, zero bytes are a broken file: each time one clear
    error and a failure file, and no program lists the three ways to name one."""
    if content is not None:
        contract.config("hyperparameters", content)
    ended = contract.run()
    assert ended.status == 70
    assert "Traceback" not in ended.log
    if content == "":
        path = contract.base / "input" / "config" / "hyperparameters.json"
        assert ended.failure.splitlines()[0] == f"{path} is empty"
    else:
        assert ended.failure.startswith("the job names no entry point\nmuster kind=contract ")
        assert all(way in ended.failure for way in WAYS)


@pytest.mark.parametrize(
    "name", ["inputdataconfig", "resourceconfig", "hyperparameters", "checkpointconfig"]
)
@pytest.mark.parametrize("content", ["", '{"a": '], ids=["zero-bytes", "cut-off"])
def test_case_001_a_broken_file_is_named(contract, name, content):
    """Whichever file is broken, the first line of the failure file names it."""
    contract.hyperparameters()
    contract.config(name, content)
    ended = contract.run()
    assert ended.status == 70
    assert ended.failure.startswith(f"{contract.base}/input/config/{name}.json is ")


@pytest.mark.parametrize("content", ["", "{", "[1]", "null"])
def test_case_001_files_that_nobody_reads(contract, content):
    """What the platform writes for others, known or new, harms no job, whatever is in it."""
    contract.hyperparameters()
    for name in (
        "trainingjobconfig",
        "init-config",
        "tensorboardoutputconfig",
        "debughookconfig",
        "profilerconfig",
        "metric-definition-regex",
        "upstreamoutputdataconfig",
        "a-file-of-2030",
    ):
        contract.config(name, content)
    ended = contract.run()
    assert ended.status == 0, ended.log
    assert "Traceback" not in ended.log


@pytest.mark.docker
@pytest.mark.parametrize("name", ["hyperparameters", "resourceconfig", "inputdataconfig"])
def test_case_001_a_file_that_may_not_be_read(name, tmp_path):
    """Another user than root is told which file is closed to it, and what to do."""
    config = tmp_path / "config"
    config.mkdir()
    (config / f"{name}.json").write_text("{}")
    (config / f"{name}.json").chmod(0o600)
    words = ["--user", "1000:1000", "-v", f"{config}:/opt/ml/input/config:ro"]
    done = docker("run", "--rm", *words, IMAGE, "train", "train.py", check=False)
    assert done.returncode == 70
    path = f"/opt/ml/input/config/{name}.json"
    assert f"{path} can't be read: Permission denied" in done.stderr
    assert "run the container as root" in done.stderr
    assert "Traceback" not in done.stderr


def test_case_002_one_order_for_all_settings(contract, tmp_path):
    """The variable wins for the program, the hyperparameter for the submit directory and the
    level; each conflict is logged with both values."""
    contract.script(name="a.py")
    job = tmp_path / "job"
    job.mkdir()
    (job / "a.py").write_text((contract.base / "code" / "a.py").read_text())
    contract.hyperparameters(
        sagemaker_program="b.py",
        sagemaker_submit_directory=str(job),
        sagemaker_container_log_level="30",
    )
    env = {
        "SAGEMAKER_PROGRAM": "a.py",
        "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/proj",
        "SAGEMAKER_CONTAINER_LOG_LEVEL": "10",
    }
    ended = contract.run(env=env)
    assert ended.status == 0, ended.log
    assert ended.answer["cwd"] == str(job)
    assert ended.env["SM_LOG_LEVEL"] == "30"
    sent = "from hyperparameter sagemaker_"
    for line in (
        f"entry point a.py from SAGEMAKER_PROGRAM wins over b.py {sent}program",
        f"submit directory {job} {sent}submit_directory wins over /opt/proj from SAGEMAKER_SUBMIT_D",
        f"log level 30 {sent}container_log_level wins over 10 from SAGEMAKER_CONTAINER_LOG_LEVEL",
    ):
        assert line in ended.log


@pytest.mark.parametrize("level", ["20", '"20"', "INFO", "info"])
def test_case_002_variables_alone_work(contract, tmp_path, level):
    """A submit directory and a level that only variables name are used; names and numbers count."""
    (tmp_path / "proj").mkdir()
    (contract.base / "code" / "train.py").rename(tmp_path / "proj" / "train.py")
    env = {
        "SAGEMAKER_PROGRAM": "train.py",
        "SAGEMAKER_SUBMIT_DIRECTORY": str(tmp_path / "proj"),
        "SAGEMAKER_CONTAINER_LOG_LEVEL": level.strip('"'),
    }
    ended = contract.run(env=env)
    assert (ended.status, ended.env["SM_LOG_LEVEL"]) == (0, "20")
    contract.hyperparameters(sagemaker_container_log_level=level)
    ended = contract.run(env=env | {"SAGEMAKER_CONTAINER_LOG_LEVEL": ""})
    assert (ended.status, ended.env["SM_LOG_LEVEL"]) == (0, "20")


@pytest.mark.docker
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ("train",)),
        ((), ("train", "--epochs", "3")),
        ((), ()),
        (("--entrypoint", "train"), ()),
        (("--entrypoint", "/bin/bash"), ("-c", "train")),
        (("--entrypoint", "/bin/bash"), ("-c", "train --epochs 3")),
        (("--entrypoint", "env"), ("train",)),
    ],
)
def test_case_003_train_is_on_path(options, words, tmp_path):
    """However the container is started, `train` is found and runs the job."""
    (tmp_path / "t.py").write_text("import sys; print('ran', sys.argv[1:])")
    done = docker(
        *("run", "--rm", "-v", f"{tmp_path}:/opt/ml/code", "-e", "SAGEMAKER_PROGRAM=t.py"),
        *("-e", "MUSTER_LAUNCHER=plain", *options, IMAGE, *words),
    )
    epochs = "--epochs" in " ".join(words)
    assert f"ran {['--epochs', '3'] if epochs else []}" in done.stdout


@pytest.mark.docker
@pytest.mark.parametrize("words", [("serve",), ("no-such-command",)])
def test_case_003_what_is_no_training(words):
    """`serve`, and a command that isn't there, end at once with a clear message."""
    done = docker("run", "--rm", IMAGE, *words, check=False)
    assert done.returncode in (2, 127)
    assert done.stderr.startswith("muster: ")
    assert "Traceback" not in done.stderr


def test_case_004_channels_of_any_name(contract):
    """Each channel has AWS's variable and one that a shell can read."""
    names = ["training", "my-data", "val.v2", "model", "code"]
    contract.hyperparameters()
    contract.config("inputdataconfig", {name: {"TrainingInputMode": "File"} for name in names})
    ended = contract.run()
    assert ended.status == 0, ended.log
    for name in names:
        path = f"{contract.base}/input/data/{name}"
        assert ended.env[f"SM_CHANNEL_{name.upper()}"] == path
        assert ended.env["SM_CHANNEL_" + name.upper().replace("-", "_").replace(".", "_")] == path


def test_case_004_a_missing_channel_lists_those_there_are(contract):
    """A script that reads SM_CHANNEL_TRAIN, where the data came as `training`, is told so."""
    contract.hyperparameters()
    contract.script("import os\nos.listdir(os.environ['SM_CHANNEL_TRAIN'])")
    contract.config("inputdataconfig", {"training": {}, "my-data": {}})
    ended = contract.run()
    assert ended.status == 1
    assert ended.failure.startswith("KeyError: 'SM_CHANNEL_TRAIN'\n")
    assert "The job has no channel train. Its channels: my-data, training." in ended.failure


@pytest.mark.parametrize("named", [None, "ethwe", "eth99"])
def test_case_005_an_interface_that_is_not_here(contract, named):
    """A name that is not on this host reaches neither NCCL nor Gloo, and the log says so."""
    contract.hyperparameters()
    hosts = {"current_host": "algo-1", "hosts": ["algo-1", "algo-2"]}
    contract.config("resourceconfig", hosts | ({"network_interface_name": named} if named else {}))
    ended = contract.run(env=NO_HARNESS)
    assert ended.status == 0, ended.log
    for variable in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "SM_NETWORK_INTERFACE_NAME"):
        assert ended.env.get(variable) != named or named is None
    assert named is None or f"names interface {named}, which is not on this host" in ended.log


NO_HARNESS = {"MUSTER_EXEC": "1"}
"""For one host of several: no other will come, so nobody is to wait for them."""

THROUGH = """
import fcntl, os, socket, struct
named = struct.pack("256s", os.environ["GLOO_SOCKET_IFNAME"].encode())
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
    its = socket.inet_ntoa(fcntl.ioctl(probe.fileno(), 0x8915, named)[20:24])
mine = socket.gethostbyname(os.environ["SM_CURRENT_HOST"])
print("through the others' network:", its == mine, its, mine)
"""


@pytest.mark.docker
def test_case_005_the_interface_that_leads_to_the_others(tmp_path, code):
    """Of two networks the one that the other host is on is taken, though the file names a third."""
    job = Job(
        tmp_path, code(THROUGH), "train.py", hosts=2, environment={"MUSTER_LAUNCHER": "plain"}
    )
    with Cluster(job) as cluster:
        cluster.start_on_two_networks()
        for host in cluster.hosts:
            assert host.wait() == 0, host.output
            assert "through the others' network: True" in host.output


def test_case_006_hosts_in_the_order_of_letters(contract):
    """algo-2 is rank 1 of twelve, on every host, however its list is shuffled."""
    hosts = [f"algo-{number}" for number in range(1, 13)]
    contract.hyperparameters()
    ranks = []
    for current, listed in (("algo-2", sorted(hosts)), ("algo-10", list(reversed(hosts)))):
        contract.config("resourceconfig", {"current_host": current, "hosts": listed})
        ended = contract.run(env=NO_HARNESS)
        assert ended.status == 0, ended.log
        ranks.append((ended.env["SM_CURRENT_HOST_RANK"], json.loads(ended.env["SM_HOSTS"])))
    assert ranks == [("1", hosts), ("9", hosts)]
