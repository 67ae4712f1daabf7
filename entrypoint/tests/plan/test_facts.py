import contextlib
import socket
import subprocess
import sys

import pytest

from muster.errors import LaunchError
from muster.plan import look_up_facts
from muster.settings import read_settings

TWO = ("algo-1", "algo-2")


@pytest.fixture
def taken():
    """Return a port on which somebody listens."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def free():
    """Return a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


@pytest.fixture
def port_for(make_job):
    """Return a function that looks up the port of a host, when a certain one is wanted.

    It raises what a plan that needs the port would.
    """

    def look_up(wanted: int, *, claim: bool = True, exec_only: str = "", **changes) -> int:
        settings = read_settings({"MUSTER_MASTER_PORT": str(wanted), "MUSTER_EXEC": exec_only})
        facts = look_up_facts(make_job(**changes), settings, {"PATH": ""}, claim=claim)
        if facts.port_trouble:
            raise LaunchError(f"port {facts.master_port} {facts.port_trouble}")
        return facts.master_port

    return look_up


def test_a_free_port_is_taken(port_for, free: int):
    """The wanted port is used where it is free, on one host and on several."""
    assert port_for(free) == free
    assert port_for(free, hosts=TWO) == free


@pytest.mark.parametrize("hosts", [("algo-1",), TWO], ids=["one-host", "two-hosts"])
def test_the_first_host_gets_round_a_taken_port(port_for, taken: int, hosts: tuple[str, ...]):
    """It takes another port, which can be listened on, and tells the other hosts."""
    port = port_for(taken, hosts=hosts)
    assert port != taken
    with contextlib.closing(socket.create_server(("", port))) as server:
        assert server.getsockname()[1] == port


def test_without_a_harness_nobody_can_tell_of_another_port(port_for, taken: int):
    """MUSTER_EXEC=1: the others know the wanted port alone. The leader says which is taken."""
    with pytest.raises(LaunchError, match=f"port {taken} is taken"):
        port_for(taken, hosts=TWO, exec_only="1")


def test_a_member_does_not_need_the_port(port_for, taken: int):
    """Only the leader listens: the same number taken on another host disturbs nobody."""
    assert port_for(taken, hosts=TWO, current_host="algo-2") == taken


def test_a_port_that_was_just_left_is_free(port_for):
    """Connections that are still dying down don't make a port taken: a job may follow a job."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = server.getsockname()[1]
        stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        # The side that closes first waits in TIME_WAIT.
        server.accept()[0].close()
    assert port_for(port, hosts=TWO) == port


def test_torchrun_is_searched_on_the_jobs_path(make_job, opt_ml):
    """Torchrun is the one on the container's PATH, and None where there is none."""
    path = opt_ml.file("bin/torchrun", "#!/bin/sh\n", 0o755)
    job, settings = make_job(), read_settings({})
    assert look_up_facts(job, settings, {"PATH": str(path.parent)}).torchrun == str(path)
    assert look_up_facts(job, settings, {"PATH": str(opt_ml.base)}).torchrun is None


def test_the_shim_is_not_disturbed_by_the_users_files(make_job, opt_ml, clean_env):
    """Neither PYTHONPATH nor a module beside the script replaces what the shim imports."""
    for name in ("json.py", "socket.py", "muster.py"):
        opt_ml.file(name, "raise SystemExit('the wrong module')")
    shim = look_up_facts(make_job(), read_settings({}), {"PATH": ""}).shim
    assert shim[0] == sys.executable
    done = subprocess.run(
        [*shim, "/bin/echo", "hi"],
        cwd=opt_ml.base,
        env=clean_env | {"PYTHONPATH": str(opt_ml.base)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hi\n", b"")


OTHER = """
import sys
from muster.plan import facts
print(facts._claim(int(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def test_jobs_that_start_together_do_not_share_a_port(port_for, free: int, clean_env):
    """A harness that has decided on the port keeps it from others before its launcher listens,
    and gives it back at its end. Looking at a plan takes nothing."""
    command = [sys.executable, "-c", OTHER, str(free)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=clean_env, **pipes) as other:
        assert other.stdout.readline() == "True\n"
        assert port_for(free) != free
        with pytest.raises(LaunchError, match=f"port {free} is reserved by another muster"):
            port_for(free, hosts=TWO, exec_only="1")
        assert port_for(free, hosts=TWO, claim=False) == free
        other.stdin.close()
        other.wait(10)
    assert port_for(free, hosts=TWO) == free


@pytest.mark.parametrize(
    ("script", "major"),
    [
        ("echo 'mpirun (Open MPI) 4.1.4'", 4),
        ("echo 'mpirun (Open MPI) 5.0.11'", 5),
        ("echo 'Intel(R) MPI Library'", None),
        ("echo broken >&2; exit 3", None),
        ("printf '\\377'", None),
    ],
)
def test_whose_mpirun_it_is(make_job, tmp_path, script: str, major: int | None):
    """Open MPI's major version; another MPI, or one that is broken, is none, and no traceback."""
    (tmp_path / "mpirun").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (tmp_path / "mpirun").chmod(0o755)
    job = make_job(reserved={"sagemaker_mpi_enabled": "true"})
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    facts = look_up_facts(job, read_settings({}), env, claim=False)
    assert (facts.mpirun, facts.mpi_major) == (str(tmp_path / "mpirun"), major)


def test_smddp_is_looked_for_where_it_is_asked_for(make_job):
    """In the script's Python, which may be missing; the instances come from the table."""
    asked = make_job(reserved={"sagemaker_distributed_dataparallel_enabled": "true"})
    settings = read_settings({"MUSTER_PYTHON": "/nowhere/python"})
    facts = look_up_facts(asked, settings, {"PATH": "/usr/bin:/bin"}, claim=False)
    assert not facts.smddp_found
    assert "ml.p4d.24xlarge" in facts.smddp_types
    facts = look_up_facts(make_job(), settings, {"PATH": "/usr/bin:/bin"}, claim=False)
    assert facts.smddp_types == ()
