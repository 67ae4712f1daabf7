"""A job that brings packages, on real containers without any way out."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cluster import Cluster, Job
from engine import IMAGE, docker
from wheels import make_wheel

pytestmark = pytest.mark.docker

SCRIPT = """
    import mine, torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    ones = torch.ones(1)
    dist.all_reduce(ones)
    print("SUM", int(ones.item()), "mine", mine.__version__)
    dist.destroy_process_group()
"""


def test_wheels_in_the_code(tmp_path, code):
    """Two hosts without a network install from the folder in their code, once each, and train; torch is
    the image's before and after."""
    folder = code(SCRIPT)
    make_wheel(folder / "wheels", "mine", "0.3", requires=["torch>=2"])
    (folder / "requirements.txt").write_text("mine\n", encoding="utf-8")
    job = Job(tmp_path, folder, "train.py", hosts=2, environment={"MUSTER_NPROC": "2"})
    with Cluster(job) as cluster:
        assert cluster.run() == [0, 0], [host.output for host in cluster.hosts]
        for host in cluster.hosts:
            assert host.output.count("requirements: 1 package in") == 1
            assert "(mine 0.3)" in host.output
        assert "SUM 4 mine 0.3" in cluster.hosts[0].output


def test_no_way_out(tmp_path, code):
    """What needs an index fails within 30 s on all hosts, with one reason and the ways out."""
    folder = code(SCRIPT)
    (folder / "requirements.txt").write_text("einops\n", encoding="utf-8")
    job = Job(tmp_path, folder, "train.py", hosts=2)
    with Cluster(job) as cluster:
        cluster.start()
        began = time.time()
        assert [host.wait() for host in cluster.hosts] == [72, 72]
        for host in cluster.hosts:
            assert host.ended_at - began < 30
            first, second, *rest = host.failure.splitlines()
            assert first.startswith("requirements.txt: no way to the index pypi.org")
            assert second.startswith("muster kind=requirements host=algo-")
            assert "wheels/" in "\n".join(rest)
        assert cluster.hosts[0].failure == cluster.hosts[1].failure
        assert "SUM" not in cluster.hosts[0].output


def run(folder: Path, *words: str) -> tuple[int, str]:
    """The status and the log of one container without a network, the code mounted read-only."""
    mount = ["-v", f"{folder}:/opt/ml/input/data/code:ro", "-e", "MUSTER_LAUNCHER=plain"]
    named = ["-e", "SAGEMAKER_PROGRAM=train.py"]
    done = docker("run", "--rm", "--network", "none", *mount, *named, *words, IMAGE, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_images_torch_stays(code):
    """Another torch is refused with both versions and the image's own file, before pip runs."""
    folder = code("print('RAN')")
    (folder / "requirements.txt").write_text("torch==2.0.0\n", encoding="utf-8")
    status, log = run(folder)
    assert status == 72, log
    assert "requirements.txt asks for torch==2.0.0, and the image has torch 2.13.0" in log
    assert "(/opt/muster/constraints.txt)" in log
    (folder / "requirements.txt").write_text("torch==2.13.0\nnumpy>=2\n", encoding="utf-8")
    status, log = run(folder)
    assert status == 0, log
    assert "requirements: nothing new from requirements.txt" in log


def test_the_harness_is_out_of_reach(code):
    """Packages of names that the harness's Python has, too, change the script's alone: the job goes on
    to its end as before."""
    folder = code("import boto3; print('HERE', boto3.__version__)")
    make_wheel(folder / "wheels", "boto3", "1.0")
    make_wheel(folder / "wheels", "psutil", "1.0", files={"psutil.py": "1/0"})
    (folder / "requirements.txt").write_text("boto3==1.0\npsutil==1.0\n", encoding="utf-8")
    status, log = run(folder)
    assert status == 0, log
    assert "HERE 1.0" in log
    assert "-> 1.0" in log
