"""mpirun as people meet it."""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter

import pytest
from cluster import Cluster
from engine import HOROVOD_IMAGE, MPI_IMAGE, docker
from mpi_program import FINALIZE, MPI_PROGRAM, WITH_FIVE
from ranks import FEW_CORES, TELL, make_job, told

pytestmark = pytest.mark.docker

MPI = {"sagemaker_mpi_enabled": "true"}


def sums(cluster: Cluster) -> Counter[str]:
    """How many ranks have printed which sum of the MPI program."""
    said = "\n".join(host.output for host in cluster.hosts)
    return Counter(re.findall(r"mpi sum ([\d.]+) ", said))


@pytest.fixture
def isolated():
    """A network on which the hosts can't reach each other, though all are on it."""
    name = f"muster-test-{uuid.uuid4().hex[:12]}"
    separate = "com.docker.network.bridge.enable_icc=false"
    docker("network", "create", "--internal", "--opt", separate, name)
    yield name
    docker("network", "rm", name, check=False)


def test_case_047_a_network_that_leads_nowhere(isolated, tmp_path, code):
    """Of two networks one is isolated: MPI, as torch, takes the one between the hosts."""
    job = make_job(
        *(MPI_IMAGE, tmp_path, code, MPI_PROGRAM + FINALIZE),
        environment={"MUSTER_NPROC": "1", **FEW_CORES},
    )
    with Cluster(job) as cluster:
        cluster.start_on_two_networks(isolated)
        assert [host.wait() for host in cluster.hosts] == [0, 0], cluster.hosts[0].output
        assert sums(cluster) == {"2.0": 2}
        for host in cluster.hosts:
            docker("rm", "-f", host.container)


def test_case_048_the_users_preload_stays(tmp_path, code):
    """Hosts call themselves `aws`: nothing is preloaded against it, and what the user preloads stays."""
    library = "/usr/lib/x86_64-linux-gnu/libm.so.6"
    script = "import os\nprint('preload', os.environ['LD_PRELOAD'], flush=True)"
    environment = {"MUSTER_NPROC": "1", "LD_PRELOAD": library}
    options = ("--hostname", "aws")
    job = make_job(MPI_IMAGE, tmp_path, code, script, environment=environment, options=options)
    with Cluster(job) as cluster:
        assert cluster.run() == [0, 0], cluster.hosts[0].output
        for host in cluster.hosts:
            assert "ld.so" not in host.output
        assert f"preload {library}" in cluster.hosts[1].output


@pytest.mark.parametrize("major", [4, 5])
def test_case_049_more_ranks_than_processors(major, open_mpi_5, tmp_path, code):
    """One processor, three ranks: Open MPI's own slots would refuse them."""
    program = MPI_PROGRAM + FINALIZE
    image, script = MPI_IMAGE, program
    if major == 5:
        image, script = open_mpi_5, program.replace(*WITH_FIVE)
    environment = {**FEW_CORES, "MUSTER_NPROC": "3"}
    job = make_job(
        *(image, tmp_path, code, script, 1),
        environment=environment,
        hyperparameters=MPI,
        options=("--cpuset-cpus", "0"),
    )
    with Cluster(job) as cluster:
        assert cluster.run() == [0], cluster.hosts[0].output
        assert sums(cluster) == {"3.0": 3}


def test_case_052_options_with_quotes(tmp_path, code):
    """A shell's words; the user's value stands in our default's place; what comes of it is logged."""
    script = TELL + "    print('foo', repr(os.environ['FOO']), flush=True)\n"
    options = "-x FOO='a b' -mca btl_tcp_if_include eth0 --NCCL_DEBUG=WARN -verbose"
    sent = {**MPI, "sagemaker_mpi_custom_mpi_options": options}
    with Cluster(make_job(MPI_IMAGE, tmp_path, code, script, hyperparameters=sent)) as cluster:
        assert cluster.run() == [0, 0], cluster.hosts[0].output
        assert {rank["NCCL_DEBUG"] for rank in told(cluster)} == {"WARN"}
        assert cluster.hosts[1].output.count("foo 'a b'\n") == 2
        (runs,) = re.findall(r"runs: (.*mpirun .*)", cluster.hosts[0].output)
        assert runs.count("btl_tcp_if_include") == 1
        assert "btl_tcp_if_include eth0" in runs


def test_case_053_every_byte_of_a_variable(tmp_path, code):
    """Values with newlines, quotes, = and $ are the same in every rank, and so are credentials' addresses."""
    odd = 'line 1\nline "2" it\'s $HOME `id` = \\ end'
    names = ("ODD", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "LD_LIBRARY_PATH")
    script = f"""
        import json, os
        facts = {{name: os.environ.get(name) for name in {names}}}
        os.write(1, ("found " + json.dumps(facts) + "\\\\n").encode())
    """
    values = dict(zip(names, (odd, "/v2/credentials/1-2-3", "/opt/mine/lib"), strict=True))
    job = make_job(MPI_IMAGE, tmp_path, code, script, environment=values, hyperparameters=MPI)
    with Cluster(job) as cluster:
        assert cluster.run() == [0, 0], cluster.hosts[0].output
        for host in cluster.hosts:
            found = [json.loads(line) for line in re.findall(r"found (\{.*\})", host.output)]
            assert found == [values] * 2


def test_case_054_without_mpi4py(tmp_path, code):
    """The image has none: an exception in one rank ends the others all the same, with its reason."""
    script = """
        import importlib.util, os, time
        assert not importlib.util.find_spec("mpi4py")
        if os.environ["RANK"] == "2":
            raise ValueError("bad label 7")
        time.sleep(100)
    """
    with Cluster(make_job(MPI_IMAGE, tmp_path, code, script, hyperparameters=MPI)) as cluster:
        assert cluster.run(30) == [1, 1]
        first, second = cluster.hosts
        assert first.failure == second.failure
        assert first.failure.startswith("ValueError: bad label 7\nmuster kind=user host=algo-2")


@pytest.mark.parametrize("image", [MPI_IMAGE, HOROVOD_IMAGE])
def test_case_055_one_host_without_ssh(image, tmp_path, code):
    """No agent is needed where all ranks are here; by hand mpirun is content as well."""
    job = make_job(image, tmp_path, code, MPI_PROGRAM + FINALIZE, 1, hyperparameters=MPI)
    job.environment = {**job.environment, **FEW_CORES}
    with Cluster(job) as cluster:
        assert cluster.run() == [0], cluster.hosts[0].output
        assert sums(cluster) == {"2.0": 2}
    words = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "echo", "by hand")
    done = docker("run", "--rm", "--network", "none", image, *words)
    assert done.stdout == "by hand\n" * 2


def test_case_059_what_ssh_would_stumble_over(tmp_path, code):
    """An open ~/.ssh, a broken configuration, old host keys, another HOME: nobody reads them."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "config").write_text("Host * StrictHostKeyChecking no", encoding="utf-8")
    (home / ".ssh" / "known_hosts").write_text("algo-2 ssh-rsa AAAA\n", encoding="utf-8")
    for path in (home, home / ".ssh"):
        path.chmod(0o777)
    options = ("--volume", f"{home}:/home/x", "--env", "HOME=/home/x", "--tmpfs", "/run")
    script = MPI_PROGRAM + FINALIZE
    job = make_job(MPI_IMAGE, tmp_path, code, script, hyperparameters=MPI, options=options)
    job.environment = {**job.environment, **FEW_CORES}
    with Cluster(job) as cluster:
        assert cluster.run() == [0, 0], cluster.hosts[0].output
        assert sums(cluster) == {"4.0": 4}
