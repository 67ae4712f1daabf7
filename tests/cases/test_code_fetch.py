"""How code gets into the container, and which entry point is meant."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time

import pytest
from s3_proxy import Answer, Proxy
from s3_store import BUCKET, Store, pack

MODULE = "import json, os\njson.dump({'cwd': os.getcwd()}, open(os.environ['SM_MODEL_DIR'] + '/answer.json', 'w'))\n"
SECRETS = ("canary-secret", "canary-token")


@pytest.fixture(scope="module")
def store():
    """A stand-in of S3."""
    with Store() as store:
        yield store


@pytest.fixture
def proxy(store):
    """The way to it, for faults."""
    proxy = Proxy((store.host, store.port))
    yield proxy
    proxy.close()


def test_case_024_baked_files(contract, store):
    """A submit directory wins over files that the image has in /opt/ml/code, and the log has both."""
    contract.script("raise SystemExit('of the image')")
    (contract.base / "code" / ".gitkeep").touch()
    address = store.put("a/sourcedir.tar.gz", pack({"train.py": MODULE, "mine.py": ""}))
    contract.hyperparameters(sagemaker_submit_directory=json.dumps(address))
    ended = contract.run(env=store.env)
    assert ended.status == 0, ended.log
    assert ended.answer["cwd"] != f"{contract.base}/code"
    said = f"code: {address} (hyperparameter sagemaker_submit_directory) wins over {contract.base}/code"
    assert said in ended.log
    # What was unpacked beside /opt/ml goes with the job.
    assert not os.path.exists(ended.answer["cwd"])


def test_case_024_an_empty_folder(contract, store):
    """Where nothing is baked, the code is where scripts expect it."""
    os.unlink(contract.base / "code" / "train.py")
    address = store.put("b/sourcedir.tar.gz", pack({"train.py": MODULE}))
    contract.hyperparameters(sagemaker_submit_directory=json.dumps(address))
    ended = contract.run(env=store.env)
    assert ended.answer["cwd"] == f"{contract.base}/code"


@pytest.mark.parametrize(
    ("program", "file", "text", "mode"),
    [
        ("src/train.py", "src/train.py", MODULE, 0o644),
        ("./pkg/train.py", "pkg/train.py", MODULE, 0o644),
        ("pkg.train", "pkg/train.py", MODULE, 0o644),
        ("process/train", "process/train.py", MODULE, 0o644),
        ("train", "train/__main__.py", MODULE, 0o644),
        ("run.sh", "run.sh", "#!/bin/bash\necho '{}' > $SM_MODEL_DIR/answer.json\n", 0o644),
        ("run.sh", "run.sh", "echo '{}' > $SM_MODEL_DIR/answer.json\n", 0o755),
        ("my script.py", "my script.py", MODULE, 0o644),
    ],
)
@pytest.mark.parametrize("launcher", ["", "torchrun"])
def test_case_025_entry_points(contract, program, file, text, mode, launcher):
    """A file in a folder, with ./ or without, a module, a folder, a shell script, a name with a blank: each
    runs, under a launcher too."""
    os.unlink(contract.base / "code" / "train.py")
    contract.script(text, file)
    (contract.base / "code" / file).chmod(mode)
    contract.hyperparameters(sagemaker_program=program)
    ended = contract.run(env={"MUSTER_LAUNCHER": launcher, "MUSTER_NPROC": "1"})
    assert ended.status == 0, ended.log
    assert ended.answer.get("cwd", f"{contract.base}/code") == f"{contract.base}/code"


@pytest.mark.parametrize("program", ["pkg.tarin", "tarin.py", "no folder/train.py", "pkg"])
def test_case_025_a_missing_one(contract, program):
    """Before anything runs, with a listing of the code."""
    contract.script(name="pkg/train.py")
    contract.hyperparameters(sagemaker_program=program)
    ended = contract.run()
    assert ended.status == 71
    assert f"the entry point {program} (hyperparameter sagemaker_program)" in ended.failure
    assert f"{contract.base}/code holds: pkg, train.py" in ended.failure


def odd(member: tarfile.TarInfo) -> bytes:
    """An archive with one good member and this one."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("train.py"))
        archive.addfile(member)
    return packed.getvalue()


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (member("../evil", tarfile.REGTYPE), "its name leads outside"),
        (member("/tmp/evil", tarfile.REGTYPE), "its name leads outside"),
        (member("etc", tarfile.SYMTYPE, "/etc"), "it links to /etc"),
        (member("null", tarfile.CHRTYPE), "it is a character device"),
    ],
    ids=["upwards", "absolute", "a link", "a device"],
)
def test_case_027_an_unsafe_archive(contract, bad, why):
    """The member is named, and nothing of the archive stays."""
    os.unlink(contract.base / "code" / "train.py")
    channel = contract.base / "input" / "data" / "code"
    channel.mkdir(parents=True)
    (channel / "sourcedir.tar.gz").write_bytes(odd(bad))
    contract.hyperparameters(sagemaker_submit_directory=str(channel / "sourcedir.tar.gz"))
    ended = contract.run()
    assert ended.status == 71
    assert f"member '{bad.name}': {why}" in ended.failure
    assert os.listdir(contract.base / "code") == []


@pytest.mark.parametrize(("mode", "top"), [("w", ""), ("w:gz", "project/")])
def test_case_027_an_odd_archive(contract, mode, top):
    """A plain tar is as good, and one top folder is entered. The name does not matter."""
    channel = contract.base / "input" / "data" / "code"
    channel.mkdir(parents=True)
    (channel / "code.bin").write_bytes(pack({f"{top}train.py": MODULE}, mode))
    contract.hyperparameters(sagemaker_submit_directory=str(channel / "code.bin"))
    ended = contract.run()
    assert ended.status == 0, ended.log
    assert ended.answer["cwd"].endswith(f"/{top}".rstrip("/"))


def test_case_028_the_channel_code(contract):
    """ModelTrainer's channels, with the image's own entry point, and with muster called by the SDK's script."""
    os.unlink(contract.base / "code" / "train.py")
    contract.script(name="../input/data/code/train.py")
    contract.script("raise SystemExit(9)", name="../input/data/sm_drivers/sm_train.sh")
    contract.config("inputdataconfig", {"code": {}, "sm_drivers": {}})
    contract.hyperparameters(lr="0.1")
    channel = contract.base / "input" / "data" / "code"
    for words in ((), ("train", str(channel / "train.py"))):
        ended = contract.run(*words)
        assert ended.status == 0, ended.log
        assert ended.argv == ["--lr", "0.1"]
        # As at any prompt, a script is looked for from the folder in which the command is given.
        assert ended.answer["cwd"] == str(contract.base if words else channel)


@pytest.mark.parametrize("launcher", ["plain", "torchrun"])
def test_case_029_a_stray_setup_py(contract, launcher):
    """A file that exists runs as that file; a setup.py beside it changes nothing."""
    contract.script("raise SystemExit('setup.py ran')", "setup.py")
    contract.hyperparameters(sagemaker_torch_distributed_enabled="true")
    ended = contract.run(env={"MUSTER_LAUNCHER": launcher, "MUSTER_NPROC": "1"})
    assert ended.status == 0, ended.log
    assert ended.answer["cwd"] == f"{contract.base}/code"


@pytest.mark.parametrize(
    ("key", "answer", "what", "cause"),
    [
        (
            "pre/fix",
            None,
            "is a prefix, not an object: it holds sourcedir.tar.gz",
            "Name the archive itself",
        ),
        (
            "absent.tar.gz",
            None,
            "there is no object absent.tar.gz in the bucket my-bucket",
            "Was it deleted",
        ),
        ("pre/fix/sourcedir.tar.gz", 403, "access denied (403", "The role needs s3:GetObject"),
        (
            "pre/fix/sourcedir.tar.gz",
            301,
            "the bucket is in eu-west-1, and was asked for in us-east-1",
            "AWS_REGION=eu-west-1",
        ),
    ],
    ids=["a prefix", "404", "403", "301"],
)
def test_case_030_what_s3_refuses(contract, store, proxy, key, answer, what, cause):
    """The message has bucket, key and the likely cause, at once; no token at any log level."""

    def refuse(_number: int, _method: str, said: Answer) -> None:
        if answer:
            said.status, said.body = answer, b""
            said.headers |= {"Content-Length": "0", "x-amz-bucket-region": "eu-west-1"}

    store.put("pre/fix/sourcedir.tar.gz", pack({"train.py": MODULE}))
    proxy.fault = refuse
    contract.hyperparameters(
        sagemaker_submit_directory=f"s3://{BUCKET}/{key}", sagemaker_container_log_level="10"
    )
    began = time.monotonic()
    ended = contract.run(env={**store.env, "AWS_ENDPOINT_URL_S3": proxy.url})
    assert time.monotonic() - began < 10
    assert ended.status == 71
    lines = ended.failure.splitlines()
    assert what in lines[0]
    assert lines[1] == "muster kind=code host=" + lines[1].split("host=")[1]
    assert cause in lines[2]
    assert not any(secret in ended.log + ended.failure for secret in SECRETS)


def test_case_030_no_region(contract, store):
    """No variable names a region: boto3's own choice is good enough for an endpoint that is named."""
    address = store.put("c/sourcedir.tar.gz", pack({"train.py": MODULE}))
    contract.hyperparameters(sagemaker_submit_directory=address)
    ended = contract.run(env={**store.env, "AWS_REGION": ""})
    assert ended.status == 0, ended.log


def test_a_stop_during_the_download(contract, store, proxy):
    """SIGTERM ends a job whose download hangs within two seconds."""
    seen: list[int] = []

    def hang(number: int, method: str, said: Answer) -> None:
        if method == "GET":
            seen.append(number)
            said.pause_s = 60.0

    address = store.put("d/sourcedir.tar.gz", pack({"train.py": MODULE}))
    contract.hyperparameters(sagemaker_submit_directory=address)
    proxy.fault = hang
    env = {**store.env, "AWS_ENDPOINT_URL_S3": proxy.url, "SAGEMAKER_BASE_DIR": str(contract.base)}
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "muster", "train"],
        env={**os.environ, **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 20
    while not seen:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 143
    assert time.monotonic() - began < 2
