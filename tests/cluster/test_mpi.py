"""mpirun across containers, without SSH."""

from __future__ import annotations

import json
import re
import time

import pytest
from cluster import Cluster, Job
from engine import FULL, MPI_IMAGE, docker
from mpi_program import FINALIZE, MPI_PROGRAM, WITH_FIVE
from ranks import TELL, make_job, told

pytestmark = pytest.mark.docker


def mpi_job(*args, **values) -> Job:
    return make_job(MPI_IMAGE, *args, **values)


@pytest.mark.parametrize(("hosts", "major"), [(2, 4), (3, 4), (2, 5)] if FULL else [(3, 4)])
def test_digits_under_mpirun(hosts, major, open_mpi_5, tmp_path, digits, root):
    """The example trains as under torchrun: the ranks meet by torch.distributed's own variables."""
    job = Job(
        tmp_path,
        root / "examples",
        "digits_ddp.py",
        hosts,
        image=open_mpi_5 if major == 5 else MPI_IMAGE,
        channels={"training": digits},
        hyperparameters={"sagemaker_mpi_enabled": "true", "epochs": "8"},
        environment={"OMP_NUM_THREADS": "1"},
    )
    with Cluster(job) as cluster:
        assert cluster.run() == [0] * hosts, "".join(host.output for host in cluster.hosts)
        first, *others = cluster.hosts
        assert re.search(r"^test_accuracy=0\.9", first.output, re.MULTILINE), first.output
        assert first.record["launcher"] == "mpirun"
        assert [path.name for path in first.model.iterdir()] == ["model.pt"]
        assert not any(list(host.model.iterdir()) for host in others)


@pytest.mark.parametrize("hostname", [(), ("--hostname", "aws")], ids=["random", "aws"])
def test_case_048_and_051_an_mpi_program(hostname, tmp_path, code):
    """MPI itself spans the hosts, whatever the containers call themselves."""
    with Cluster(mpi_job(tmp_path, code, MPI_PROGRAM + FINALIZE, options=hostname)) as cluster:
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        said = "\n".join(host.output for host in cluster.hosts)
        assert sorted(re.findall(r"mpi sum 4\.0 4\.0 of (\d)", said)) == ["0", "1", "2", "3"]
        # Open MPI is noisy where it may not look into other processes' memory.
        assert "Read -1" not in said


def test_case_058_another_user_on_a_read_only_root(tmp_path, code):
    """As uid 1000, without a name in /etc/passwd, with nothing writable but /tmp and the volumes."""
    options = ("--user", "1000", "--read-only", "--tmpfs", "/tmp")
    job = mpi_job(tmp_path, code, MPI_PROGRAM + FINALIZE, options=options)
    with Cluster(job) as cluster:
        for host in cluster.hosts:
            for folder in (job.code, host.folder, *host.folder.rglob("*")):
                folder.chmod(0o777)
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        assert "mpi sum 4.0 4.0 of 0" in cluster.hosts[0].output


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("--mca btl_tcp_if_exclude lo,docker0", None),
        ("-verbose -x NCCL_DEBUG=VERSION", "VERSION"),
        ("--NCCL_DEBUG WARN", "WARN"),
    ],
)
def test_the_guides_own_options(options, found, tmp_path, code):
    """As AWS's guides write them: mpirun takes them, and variables reach every rank."""
    script = MPI_PROGRAM + FINALIZE + TELL
    sent = {"sagemaker_mpi_enabled": "true", "sagemaker_mpi_custom_mpi_options": options}
    with Cluster(mpi_job(tmp_path, code, script, hyperparameters=sent)) as cluster:
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        assert {rank["NCCL_DEBUG"] for rank in told(cluster)} == {found}


@pytest.mark.parametrize("options", ["-hostfile /tmp/h", "-h", "-x FOO='a"])
def test_case_056_options_that_would_train_nothing_are_refused(options, tmp_path, code):
    """kind=plan on all hosts, with the option; no job that did nothing is a success."""
    sent = {"sagemaker_mpi_enabled": "true", "sagemaker_mpi_custom_mpi_options": options}
    with Cluster(mpi_job(tmp_path, code, TELL, hyperparameters=sent)) as cluster:
        assert cluster.run() == [73, 73]
        first, second = cluster.hosts
        assert first.failure == second.failure
        assert "sagemaker_mpi_custom_mpi_options" in first.failure
        assert "muster kind=plan" in first.failure


def test_a_rank_that_saves_and_leaves_without_finalize(tmp_path, code):
    """After SIGTERM each rank saves and leaves; Open MPI would kill the others at the first one's end."""
    seconds = 8
    script = (
        MPI_PROGRAM
        + f"""
    import signal, time
    from pathlib import Path
    model = Path(os.environ["SM_MODEL_DIR"])
    def save(*_):
        time.sleep({seconds} if os.environ["RANK"] == "3" else 0.1)
        (model / ("saved-" + os.environ["RANK"])).touch()
        os._exit(0)
    signal.signal(signal.SIGTERM, save)
    (model / ("started-" + os.environ["RANK"])).touch()
    time.sleep(100)
"""
    )
    with Cluster(mpi_job(tmp_path, code, script)) as cluster:
        first, second = cluster.hosts
        cluster.start()
        for rank, host in enumerate((first, first, second, second)):
            host.wait_for_file(f"started-{rank}")
        began = time.monotonic()
        docker("kill", "--signal", "TERM", first.container)
        assert [host.wait() for host in cluster.hosts] == [0, 0], first.output + second.output
        assert time.monotonic() - began < seconds + 5
        for rank, host in enumerate((first, first, second, second)):
            assert (host.model / f"saved-{rank}").exists()


@pytest.mark.parametrize("program", ["mpirun", "orted"])
def test_a_launcher_that_is_killed_ends_the_job(program, tmp_path, code):
    """Without mpirun, or one of its daemons, the ranks can't go on: all hosts end in seconds, with one text."""
    script = """
        import os, time
        from pathlib import Path
        Path(os.environ["SM_MODEL_DIR"], "started").touch()
        time.sleep(100)
    """
    with Cluster(mpi_job(tmp_path, code, script)) as cluster:
        cluster.start()
        for host in cluster.hosts:
            host.wait_for_file("started")
        victim = cluster.hosts[program == "orted"]
        find = f'for p in /proc/[0-9]*; do [ "$(cat $p/comm)" = {program} ] && kill -9 ${{p#/proc/}}; done; true'
        began = time.monotonic()
        docker("exec", victim.container, "bash", "-c", find)
        statuses = [host.wait(30) for host in cluster.hosts]
        assert time.monotonic() - began < 10
        first, second = cluster.hosts
        assert statuses[0] == statuses[1] != 0, first.output + second.output
        assert first.failure == second.failure
        assert re.search(r"muster kind=(launch|signal|lost) ", first.failure), first.failure


def test_case_036_only_the_named_groups_train(tmp_path, code):
    """The leader of the job is outside the world: mpirun runs on a member, and reaches the other through the leader."""
    script = """
        import os
        names = ("SM_CURRENT_HOST", "RANK", "WORLD_SIZE", "MUSTER_IN_WORLD", "SM_CURRENT_INSTANCE_GROUP")
        print("found", *(os.environ.get(name) for name in names), flush=True)
    """
    groups = {"data": ["algo-1"], "gpu": ["algo-2", "algo-3"]}
    sent = {
        "sagemaker_mpi_enabled": "true",
        "sagemaker_distribution_instance_groups": json.dumps(["gpu"]),
    }
    with Cluster(mpi_job(tmp_path, code, script, hosts=3, hyperparameters=sent)) as cluster:
        for host in cluster.hosts:
            host.rewrite(
                "resourceconfig",
                current_group_name=next(
                    name for name, hosts in groups.items() if host.name in hosts
                ),
                instance_groups=[
                    {"instance_group_name": name, "instance_type": "ml.c5.xlarge", "hosts": hosts}
                    for name, hosts in groups.items()
                ],
            )
        assert cluster.run() == [0, 0, 0], "".join(host.output for host in cluster.hosts)
        said = "\n".join(host.output for host in cluster.hosts)
        assert sorted(re.findall(r"found (.+)", said)) == [
            "algo-1 None None 0 data",
            "algo-2 0 4 1 gpu",
            "algo-2 1 4 1 gpu",
            "algo-3 2 4 1 gpu",
            "algo-3 3 4 1 gpu",
        ]


def test_case_050_open_mpi_5(open_mpi_5, tmp_path, code):
    """Its parameters have other names: the same program spans the hosts, and its daemons stay ours."""
    script = MPI_PROGRAM.replace(*WITH_FIVE) + FINALIZE
    job = mpi_job(tmp_path, code, script, environment={"MUSTER_LAUNCHER": "mpirun"})
    job.image = open_mpi_5
    with Cluster(job) as cluster:
        assert cluster.run() == [0, 0], "".join(host.output for host in cluster.hosts)
        said = "\n".join(host.output for host in cluster.hosts)
        assert sorted(re.findall(r"mpi sum 4\.0 4\.0 of (\d)", said)) == ["0", "1", "2", "3"]
        assert "/opt/venv/bin/mpirun" in said
