"""`muster local --backend docker`: the same command, each host a container."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from engine import HOROVOD_IMAGE, IMAGE, MPI_IMAGE, docker

pytestmark = pytest.mark.docker


@pytest.fixture
def start(tmp_path):
    """A function that starts `muster local` on a script's text, with two hosts. Ends what is left."""
    started: list[subprocess.Popen[str]] = []

    def run(script: str, *options: str) -> subprocess.Popen[str]:
        (tmp_path / "train.py").write_text(textwrap.dedent(script), encoding="utf-8")
        words = [sys.executable, "-m", "muster", "local", "train.py", "--backend", "docker"]
        started.append(
            subprocess.Popen(
                [*words, "--image", IMAGE, "--hosts", "2", *options],
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield run
    for process in started:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=60)


@pytest.mark.parametrize(
    ("image", "example", "launcher"),
    [
        (HOROVOD_IMAGE, "digits_horovod.py", "horovodrun"),
        (MPI_IMAGE, "digits_ddp.py", "mpirun"),
    ],
)
def test_the_commands_of_the_other_images(image, example, launcher, root, digits, tmp_path):
    """As images/*/README.md have them: the image chooses the launcher, and two containers train."""
    options = ("--backend", "docker", "--image", image, "--hosts", "2", "--nproc", "1")
    data = ("--channel", f"training={digits}", "--", "--epochs", "3")
    words = [sys.executable, "-m", "muster", "local", root / "examples" / example, *options, *data]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_accuracy=0." in done.stdout
    assert f"launcher {launcher} (the default)" in done.stdout + done.stderr


def job_of(folder: Path) -> str:
    """The name of the one job that has run in the folder."""
    (job,) = (folder / "muster-out").iterdir()
    return job.name


def left(job: str) -> list[str]:
    """The containers and networks of a job that are still there."""
    only = ("--quiet", "--filter", f"label=muster.local={job}")
    words = (("ps", "--all"), ("network", "ls"))
    return [line for each in words for line in docker(*each, *only).stdout.split()]


def table_of(output: str) -> str:
    return " ".join(output.replace("│", " ").split())


def test_two_containers_train_together(start, tmp_path):
    """Two hosts reduce a number over the job's network; names, volumes and arguments are those of a
    job on SageMaker; results lie on this machine; nothing is left behind."""
    script = """
        import json, os, shutil, socket, sys
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        total = torch.tensor(dist.get_rank() + 1)
        dist.all_reduce(total)
        host = os.environ["SM_CURRENT_HOST"]
        print(f"{host} has {total.item()}")
        with open(f"{os.environ['SM_MODEL_DIR']}/{host}.json", "w") as file:
            shm = shutil.disk_usage("/dev/shm").total
            data = os.listdir(os.environ["SM_CHANNEL_TRAINING"])
            json.dump([socket.gethostname() == host, shm, data, sys.argv[1:]], file)
    """
    data = tmp_path / "data, of mine"
    data.mkdir()
    (data / "x.npz").touch()
    options = ("--channel", f"training={data}", "--shm-size", "256m", "--hyperparameter", "lr=1e-3")
    process = start(script, *options, "--", "--note", "a b")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert "algo-1 has 3" in out.splitlines()
    assert "[algo-2 1] algo-2 has 3" in out.splitlines()
    assert "model: algo-1.json, algo-2.json" in out
    (folder,) = tmp_path.glob("muster-out/*")
    for host in ("algo-1", "algo-2"):
        said = json.loads((folder / "model" / f"{host}.json").read_text())
        assert said == [False, 256 * 1024**2, ["x.npz"], ["--lr", "1e-3", "--note", "a b"]]
        assert (folder / host / "output" / "data" / "muster" / f"run-{host}.json").exists()
    assert left(folder.name) == []
    assert not (tmp_path / "__pycache__").exists()


def test_a_failing_container_ends_the_job_with_its_status_and_reason(start, tmp_path):
    """The other host does not wait for ever; table and status are the failed host's; nothing is
    left behind."""
    script = """
        import os, sys, time
        if os.environ["SM_CURRENT_HOST"] == "algo-2":
            sys.exit(33)
        time.sleep(60)
    """
    process = start(script, "--launcher", "plain")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 33, out + err
    assert "rank 1: the script ended with status 33" in table_of(out)
    assert "ended because of algo-2" in table_of(out)
    (failure,) = tmp_path.glob("muster-out/*/algo-2/output/failure")
    assert failure.read_text().splitlines()[1] == "muster kind=user host=algo-2 rank=1 status=33"
    assert left(job_of(tmp_path)) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_reaches_every_container(number, start, tmp_path):
    """SIGTERM and Ctrl-C let every script save, as `docker stop` does, and nothing is left behind."""
    script = """
        import os, signal, sys, time
        folder = os.environ["SM_MODEL_DIR"] + "/" + os.environ["SM_CURRENT_HOST"]

        def save(number, frame):
            open(folder + ".saved", "w").close()
            sys.exit(0)

        signal.signal(signal.SIGTERM, save)
        open(folder, "w").close()
        time.sleep(60)
    """
    process = start(script, "--launcher", "plain")
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("muster-out/*/model/algo-?"))) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(left(job_of(tmp_path))) == 3
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert len(list(tmp_path.glob("muster-out/*/model/algo-?.saved"))) == 2, out + err
    assert left(job_of(tmp_path)) == []


def test_a_missing_image_is_one_clear_error(start, tmp_path):
    """An image that isn't there is told with what to do; nothing is made."""
    process = start("print('never')", "--image", "muster-test/absent:none")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, out + err
    assert err.splitlines() == [
        "muster: --backend docker: the image muster-test/absent:none is not on this machine",
        "Build it (make images), or fetch it: docker pull muster-test/absent:none",
    ]
    assert not (tmp_path / "muster-out").exists()
