import csv
from itertools import pairwise
from pathlib import Path

import pytest

from muster.local import docker
from muster.local.environment import portable
from muster.local.folders import LocalHost
from muster.local.options import parse
from muster.model import Paths

HOST = LocalHost("algo-2", "127.0.0.2", Paths("/out/local-1/algo-2"))


def run_host(*words: str, variables: dict[str, str] | None = None) -> list[str]:
    options = parse(["/src/train.py", "--backend", "docker", *words])
    return docker.run_host(options, HOST, variables or {})


def given(words: list[str], option: str) -> list[str]:
    """Return what follows each `option`, before the image's name."""
    return [value for word, value in pairwise(words) if word == option]


def test_the_network_is_internal_and_has_the_label():
    """A job's network leads nowhere, and can be found by the job's label."""
    assert docker.create_network("local-1") == (
        ["network", "create", "--internal", "--label", "muster.local=local-1", "muster-local-1"]
    )


def test_a_host_is_known_by_its_alias_only():
    """The hostname stays random; the name algo-2 is the network's; nothing is pulled."""
    words = run_host()
    assert words[:4] == ["run", "--detach", "--pull", "never"]
    assert given(words, "--network") == ["muster-local-1"]
    assert given(words, "--network-alias") == ["algo-2"]
    assert given(words, "--label") == ["muster.local=local-1"]
    assert given(words, "--name") == ["muster-local-1-algo-2"]
    assert not {"--hostname", "-h", "--rm"} & set(words)


def test_the_volumes_are_those_of_sagemaker():
    """Input, output, its data, the job's one model folder, each channel, and the code as one."""
    words = run_host("--channel", "training=/data/digits", "--channel", "b.c=/b")
    mounts = [field.split(",") for field in given(words, "--mount")]
    assert {tuple(part.partition("=")[2] for part in mount) for mount in mounts} == {
        ("bind", "/out/local-1/algo-2/input", "/opt/ml/input"),
        ("bind", "/out/local-1/algo-2/output", "/opt/ml/output"),
        ("bind", "/out/local-1/algo-2/output/data", "/opt/ml/output/data"),
        ("bind", "/out/local-1/model", "/opt/ml/model"),
        ("bind", "/data/digits", "/opt/ml/input/data/training"),
        ("bind", "/b", "/opt/ml/input/data/b.c"),
        ("bind", "/src", "/opt/ml/input/data/code"),
    }


@pytest.mark.parametrize("folder", ["/a,b", '/a "b"', "/a:ro", "/a b", "/a=b"])
def test_any_path_can_be_mounted(folder: str):
    """Commas, quotes and colons in a path reach docker as part of the path."""
    field = given(run_host("--channel", f"x={folder}"), "--mount")[-2]
    assert next(csv.reader([field])) == [
        "type=bind",
        f"source={folder}",
        "target=/opt/ml/input/data/x",
    ]


def test_the_harness_and_the_script_come_last():
    """Image, `train`, the script by its name in the code folder, its arguments as they are."""
    words = run_host("--image", "my/image:1", "--shm-size", "2g", "--", "--note", "a b")
    assert words[-5:] == ["my/image:1", "train", "train.py", "--note", "a b"]
    assert given(words, "--shm-size") == ["2g"]
    assert given(run_host(), "--shm-size") == ["1g"]


def test_values_of_variables_are_in_no_argument():
    """Every user of a machine can read arguments; docker takes the values from its own variables."""
    words = run_host(variables={"TOKEN": "secret", "A": "b"})
    assert given(words, "--env") == ["A", "TOKEN"]
    assert not any("secret" in word for word in words)


def test_the_variables_of_a_host():
    """The options' variables win over the shell's; what is about this machine stays here."""
    options = parse(
        [
            "/src/train.py",
            "--backend",
            "docker",
            "--hosts",
            "2",
            "--nproc",
            "3",
            "--launcher",
            "plain",
        ]
    )
    shell = {"PATH": "/bin", "MUSTER_NPROC": "9", "MUSTER_STOP_GRACE_S": "5", "NOTE": "a b"}
    env = docker.host_env(options, HOST, shell)
    assert env.pop("OMP_NUM_THREADS").isdigit()
    assert env == {
        "MUSTER_LAUNCHER": "plain",
        "MUSTER_NPROC": "3",
        "MUSTER_STOP_GRACE_S": "5",
        "NOTE": "a b",
        "PYTHONDONTWRITEBYTECODE": "1",
        "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/input/data/code",
        "TRAINING_JOB_NAME": "local-1",
    }
    assert docker.host_env(options, HOST, {"OMP_NUM_THREADS": "7"})["OMP_NUM_THREADS"] == "7"


def test_what_stays_on_this_machine():
    """Paths, sessions, proxies and the names of odd shells don't go into a container."""
    stays = (
        "PATH HOME USER PWD _ TERM LANG LC_ALL TMPDIR VIRTUAL_ENV PYTHONPATH LD_LIBRARY_PATH PIP_CERT"
        " DOCKER_HOST https_proxy NO_PROXY SSL_CERT_FILE REQUESTS_CA_BUNDLE SAGEMAKER_BASE_DIR"
        " SAGEMAKER_SUBMIT_DIRECTORY MUSTER_ADDRESSES BASH_FUNC_x%% a.b"
    )
    goes = "MUSTER_LAUNCHER NCCL_DEBUG PATHS MY_HOME AWS_REGION OMP_NUM_THREADS _X SM_X lower"
    env = dict.fromkeys([*stays.split(), *goes.split()], "x")
    assert sorted(portable(env)) == sorted(goes.split())


def test_a_folder_is_mounted_by_its_full_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Docker has no current folder: relative paths are made full."""
    monkeypatch.chdir(tmp_path)
    options = parse(["train.py", "--backend", "docker", "--channel", "x=data"])
    mounts = given(docker.run_host(options, HOST, {}), "--mount")
    assert f"type=bind,source={tmp_path}/data,target=/opt/ml/input/data/x" in mounts
    assert f"type=bind,source={tmp_path},target=/opt/ml/input/data/code" in mounts


def test_a_command_of_the_image(tmp_path, monkeypatch):
    """A command is named to the container's harness as it is; no code is mounted, and no folder named for it."""
    monkeypatch.chdir(tmp_path)
    options = parse(["all_thing_perf", "--backend", "docker", "--", "-b", "8"])
    words = docker.run_host(options, HOST, {})
    assert words[-4:] == ["train", "all_thing_perf", "-b", "8"]
    assert not [mount for mount in given(words, "--mount") if "data/code" in mount]
    assert "SAGEMAKER_SUBMIT_DIRECTORY" not in docker.host_env(options, HOST, {})
