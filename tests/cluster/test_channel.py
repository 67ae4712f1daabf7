"""What happens to a job when something happens to one of its hosts: all end, with one reason."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from cluster import Cluster, Host, Job
from engine import FULL, HOROVOD_IMAGE, IMAGE, MPI_IMAGE, docker

pytestmark = pytest.mark.docker

VISIBLE_S = 3.0
"""From a failure that can be seen to the end of the last host (design.md's table)."""
SILENT_S = 15.0
"""The same for a host that only goes silent."""

# Every host is in its work; then something happens on one of them, while the others sleep.
SCRIPT = """
    import ctypes, os, signal, sys, time
    from pathlib import Path

    model = Path("/opt/ml/model")
    def saved(*_):
        (model / "terminated").touch()
        sys.exit(0)
    signal.signal(signal.SIGTERM, {on_term})
    (model / "started").touch()
    until = time.monotonic() + 100
    while time.monotonic() < until:
        if (model / "go").exists():
            {fault}
        time.sleep(0.02)
"""


@dataclass(frozen=True)
class Fault:
    """One thing that happens on a host, and how the job must end."""

    status: int
    kind: str
    reason: str
    script: str = "pass"
    """In the script, when `go` appears."""
    act: Callable[[Cluster, Host], object] | None = None
    """From outside."""
    rank: bool = True
    """Whether the reason has a rank."""
    seconds: float = VISIBLE_S
    gone: bool = False
    """Whether the host itself is gone, so that nothing can be asked of it."""
    options: tuple[str, ...] = ()


def kill_harness(_cluster: Cluster, host: Host) -> None:
    os.kill(host.pid, signal.SIGKILL)


def cut_off(cluster: Cluster, host: Host) -> None:
    docker("network", "disconnect", cluster.network, host.container)


SIGKILLED = "the script was killed by SIGKILL (signal 9)"
FAULTS = {
    "raises": Fault(1, "user", "ValueError: bad label 7", 'raise ValueError("bad label 7")'),
    "exits-33": Fault(33, "user", "the script ended with status 33", "sys.exit(33)"),
    "killed": Fault(137, "signal", SIGKILLED, "os.kill(os.getpid(), signal.SIGKILL)"),
    "segfault": Fault(
        139, "signal", "the script was killed by SIGSEGV (signal 11)", "ctypes.string_at(0)"
    ),
    "out-of-memory": Fault(
        137,
        "signal",
        f"{SIGKILLED}: out of memory",
        "held = [bytearray(2 ** 20) for _ in range(4096)]",
        options=("--memory", "400m", "--memory-swap", "400m"),
        seconds=6,
    ),
    "stopped-rank": Fault(
        78,
        "stalled",
        "has been stopped by SIGSTOP (signal 19) for",
        "os.kill(os.getpid(), signal.SIGSTOP)",
        seconds=SILENT_S,
    ),
    "harness-killed": Fault(
        77, "lost", "its connection was closed", act=kill_harness, rank=False, gone=True
    ),
    "container-killed": Fault(
        77,
        "lost",
        "its connection was closed",
        act=lambda _, host: docker("kill", host.container),
        rank=False,
        gone=True,
    ),
    "paused": Fault(
        77,
        "lost",
        "nothing was heard of it for 1",
        act=lambda _, host: docker("pause", host.container),
        rank=False,
        seconds=SILENT_S,
        gone=True,
    ),
    "cut-off": Fault(
        77,
        "lost",
        "nothing was heard of it for 1",
        act=cut_off,
        rank=False,
        seconds=SILENT_S,
        gone=True,
    ),
}
CI = [
    ("raises", "torchrun", 2, 2),
    ("exits-33", "plain", 4, 4),
    ("killed", "torchrun", 2, 1),
    ("segfault", "plain", 2, 1),
    ("out-of-memory", "torchrun", 2, 2),
    ("stopped-rank", "plain", 2, 2),
    ("harness-killed", "torchrun", 2, 2),
    ("container-killed", "plain", 4, 1),
    ("paused", "plain", 2, 2),
    ("cut-off", "torchrun", 2, 2),
    ("raises", "mpirun", 2, 2),
    ("killed", "mpirun", 2, 1),
    ("harness-killed", "mpirun", 2, 2),
    ("paused", "mpirun", 2, 1),
    ("exits-33", "horovodrun", 2, 1),
    ("segfault", "horovodrun", 2, 2),
    ("container-killed", "horovodrun", 2, 2),
    ("cut-off", "horovodrun", 2, 2),
]
"""Fault, launcher, hosts, the host that it happens to."""
ALL = [
    (fault, launcher, hosts, victim)
    for fault in FAULTS
    for launcher in ("torchrun", "plain", "mpirun", "horovodrun")
    for hosts, victim in ((2, 1), (2, 2), (4, 3))
]


def make_job(tmp_path, code, launcher: str, hosts: int, **values) -> Job:
    script = SCRIPT.format(on_term=values.pop("on_term", "saved"), fault=values.pop("fault", "0"))
    environment = {"MUSTER_LAUNCHER": launcher} | values.pop("environment", {})
    image = {"mpirun": MPI_IMAGE, "horovodrun": HOROVOD_IMAGE}.get(launcher, IMAGE)
    return Job(
        tmp_path, code(script), "train.py", hosts, image=image, environment=environment, **values
    )


def assert_alike(hosts: list[Host], fault: Fault, victim: str) -> None:
    """The same text, with the reason first, on all of them."""
    texts = {host.failure for host in hosts}
    assert len(texts) == 1, texts
    first, second, *_ = texts.pop().splitlines()
    assert fault.reason in first
    assert second.startswith(f"muster kind={fault.kind} host={victim} rank=")
    assert second.endswith(f"status={fault.status}")
    assert second.split()[3] != "rank=-" or not fault.rank


@pytest.mark.parametrize(("name", "launcher", "count", "number"), ALL if FULL else CI)
def test_what_happens_to_one_host_ends_all(name, launcher, count, number, tmp_path, code):
    """Every host ends in time, with the status and the text of the one that it happened to."""
    fault = FAULTS[name]
    job = make_job(tmp_path, code, launcher, count, fault=fault.script, options=fault.options)
    with Cluster(job) as cluster:
        cluster.start()
        for host in cluster.hosts:
            host.wait_for_file("started")
        victim = cluster.hosts[number - 1]
        began = time.time()
        (victim.model / "go").touch()
        if fault.act:
            fault.act(cluster, victim)
        others = [host for host in cluster.hosts if host is not victim]
        hosts = others if fault.gone else cluster.hosts
        assert [host.wait(40) for host in hosts] == [fault.status] * len(hosts), "".join(
            host.output for host in cluster.hosts
        )
        assert max(host.ended_at for host in hosts) - began < fault.seconds
        assert_alike(hosts, fault, victim.name)
        # Their scripts could save.
        assert all((host.model / "terminated").exists() for host in others)
        if name in ("paused", "cut-off"):
            docker("unpause", victim.container, check=False)
            # It has lost the others as they have lost it.
            assert victim.wait(30) == 77
            assert "muster kind=lost" in victim.failure


def test_a_host_that_comes_late_is_waited_for(tmp_path, code):
    """The leader's name does not resolve for a while: the member says so once, and then it runs."""
    job = Job(tmp_path, code("print('trained')"), "train.py", hosts=2)
    with Cluster(job) as cluster:
        first, second = cluster.hosts
        cluster.start(second)
        time.sleep(20 if FULL else 4)
        cluster.start(first)
        assert [host.wait() for host in cluster.hosts] == [0, 0], first.output + second.output
        said = second.output.count("the leader algo-1: its name does not resolve")
        assert said == 1
        assert "all 2 hosts are here after" in first.output


@pytest.mark.parametrize(
    ("present", "reason"),
    [
        (0, "1 of 2 hosts after 4 s, missing: algo-2 (its name does not resolve)"),
        (1, "algo-2 can't join the job: its leader algo-1: not reached within 4 s: "),
    ],
    ids=["no-member", "no-leader"],
)
def test_a_host_that_never_comes_is_named(present, reason, tmp_path, code):
    """Who is there ends when the time is over, and says who is missing, and why."""
    environment = {"MUSTER_ROLLCALL_S": "4"}
    job = Job(tmp_path, code("print('trained')"), "train.py", hosts=2, environment=environment)
    with Cluster(job) as cluster:
        host = cluster.hosts[present]
        cluster.start(host)
        began = time.monotonic()
        assert host.wait() == 74, host.output
        assert time.monotonic() - began < 9
        first, second, *_ = host.failure.splitlines()
        assert first.startswith(reason)
        assert "its name does not resolve" in first
        assert second.startswith("muster kind=rollcall host=")
        assert "trained" not in host.output


def test_a_taken_port_of_the_channel_is_told(tmp_path, code):
    """The leader says which port is taken; the member ends too, when its time is over."""
    environment = {"MUSTER_ROLLCALL_S": "5"}
    job = Job(
        tmp_path,
        code("print('trained')"),
        "train.py",
        hosts=2,
        environment=environment,
        options=("--entrypoint", "/bin/bash"),
        command=("-c", "(exec python3 -m http.server 7770 &) ; sleep 1; exec muster train"),
    )
    with Cluster(job) as cluster:
        first, second = cluster.hosts
        assert cluster.run() == [74, 74]
        assert first.failure.startswith(
            "port 7770, on which the hosts of the job meet, can't be used: Address already in use"
        )
        assert "algo-2 can't join the job" in second.failure


def test_a_taken_port_of_the_ranks_is_got_round(tmp_path, code):
    """The first host takes another port, and all others are told."""
    script = "import os; print('meet', os.environ['MASTER_PORT'], os.environ['SM_MASTER_PORT'])"
    job = Job(
        tmp_path,
        code(script),
        "train.py",
        hosts=2,
        options=("--entrypoint", "/bin/bash"),
        command=("-c", "(exec python3 -m http.server 7777 &) ; sleep 1; exec muster train"),
    )
    with Cluster(job) as cluster:
        first, second = cluster.hosts
        assert cluster.run() == [0, 0], first.output + second.output
        ports = [
            line.split()[-2:]
            for host in cluster.hosts
            for line in host.output.splitlines()
            if "meet " in line and "muster" not in line
        ]
        assert ports[0] == ports[1]
        assert ports[0][0] == ports[0][1] != "7777"
        assert "port 7777 is taken: the ranks meet at another one" in first.output


# Loaded by every Python of the container, the harness's and the rank's; maybe twice.
SKEW = "import time; time.time = vars(time).setdefault('late', lambda now=time.time: now() - 30)\n"


def test_clocks_that_differ_do_not_decide(tmp_path, code):
    """A host whose clock is 30 s late fails after the first one: the first is the cause."""
    script = """
        import os, sys, time
        from pathlib import Path
        model = Path("/opt/ml/model")
        (model / "started").touch()
        while not (model / "go").exists():
            time.sleep(0.01)
        time.sleep({"algo-1": 0, "algo-2": 0.5}[os.environ["SM_CURRENT_HOST"]])
        raise ValueError(os.environ["SM_CURRENT_HOST"])
    """
    environment = {"MUSTER_LAUNCHER": "plain"}
    job = Job(tmp_path, code(script), "train.py", hosts=2, environment=environment)
    pth = tmp_path / "skew.pth"
    pth.write_text(SKEW, encoding="utf-8")
    with Cluster(job) as cluster:
        first, second = cluster.hosts
        cluster.start(first)
        places = [
            f"/opt/{venv}/lib/python3.11/site-packages/skew.pth" for venv in ("muster", "venv")
        ]
        cluster.job.options = [word for place in places for word in ("-v", f"{pth}:{place}")]
        cluster.start(second)
        for host in cluster.hosts:
            host.wait_for_file("started")
        for host in cluster.hosts:
            (host.model / "go").touch()
        assert [host.wait() for host in cluster.hosts] == [1, 1]
        assert first.failure == second.failure
        assert first.failure.startswith("ValueError: algo-1\n")
        late = second.record["ranks"][0]["ended"] - first.record["ranks"][0]["ended"]
        assert -31 < late < -28


@pytest.mark.parametrize("launcher", ["torchrun", "plain", "mpirun", "horovodrun"])
def test_one_stopped_host_stops_all(launcher, tmp_path, code):
    """SIGTERM to one host reaches the ranks of all; all save to their ends, and end with 0."""
    saving = 60 if FULL else 4
    on_term = f"lambda *_: (time.sleep({saving}), saved())"
    job = make_job(tmp_path, code, launcher, 2, on_term=on_term)
    with Cluster(job) as cluster:
        cluster.start()
        for host in cluster.hosts:
            host.wait_for_file("started")
        began = time.time()
        docker("kill", "--signal", "TERM", cluster.hosts[1].container)
        assert [host.wait(90) for host in cluster.hosts] == [0, 0]
        took = [host.ended_at - began for host in cluster.hosts]
        assert saving <= min(took) <= max(took) < saving + 3
        # compose --abort-on-container-exit would kill the one that is left.
        assert max(took) - min(took) < 0.5
        for host in cluster.hosts:
            assert (host.model / "terminated").exists()
            assert host.record["stop_signal"] == 15
        assert "algo-2 was asked to stop: the ranks have 110 s" in cluster.hosts[0].output


def test_a_script_that_ignores_sigterm_is_killed(tmp_path, code):
    """On another host too, after MUSTER_ABORT_GRACE_S: the reason stays the failure's."""
    job = make_job(
        tmp_path,
        code,
        "plain",
        2,
        on_term="signal.SIG_IGN",
        fault='raise ValueError("bad label 7")',
        environment={"MUSTER_ABORT_GRACE_S": "2"},
    )
    with Cluster(job) as cluster:
        cluster.start()
        for host in cluster.hosts:
            host.wait_for_file("started")
        began = time.time()
        (cluster.hosts[0].model / "go").touch()
        assert [host.wait() for host in cluster.hosts] == [1, 1]
        assert cluster.hosts[0].failure == cluster.hosts[1].failure
        assert cluster.hosts[1].record["ranks"][0]["status"] == 137
        took = [host.ended_at - began for host in cluster.hosts]
        assert max(took) < 2 + VISIBLE_S
        assert max(took) - min(took) < 0.5


@pytest.mark.parametrize("without", [0, 1], ids=["on-the-leader", "on-the-member"])
def test_code_that_is_missing_on_one_host_ends_all(without, tmp_path):
    """No launcher starts before the code is ready everywhere: nobody waits in a rendezvous."""
    environment = {"MUSTER_CODE_DIR": "/opt/ml/input/code"}
    job = Job(tmp_path, program="train.py", hosts=2, environment=environment)
    with Cluster(job) as cluster:
        for number, host in enumerate(cluster.hosts):
            folder = host.folder / "input" / "code"
            folder.mkdir()
            (folder / "other.py").touch()
            if number != without:
                (folder / "train.py").write_text("print('trained')")
        began = time.monotonic()
        assert cluster.run() == [71, 71]
        assert time.monotonic() - began < 10
        first, second = cluster.hosts
        assert first.failure == second.failure
        assert first.failure.startswith("the entry point train.py")
        assert f"host=algo-{without + 1} rank=- status=71" in first.failure
        assert "trained" not in first.output + second.output


@pytest.mark.parametrize(
    ("config", "status", "reason"),
    [
        (
            {"hosts": ["algo-1", "algo-2", "algo-3"], "instance_groups": []},
            74,
            "the list of hosts differs: algo-1 has algo-1, algo-2, algo-2 has algo-1, ",
        ),
        (
            {"hosts": ["algo-2"], "instance_groups": []},
            70,
            "resourceconfig.json lists algo-2 as the only host",
        ),
    ],
    ids=["one-too-many", "alone"],
)
def test_a_wrong_list_on_one_host_ends_all(config, status, reason, tmp_path, code):
    """Never two worlds: hosts that don't agree who they are don't begin."""
    job = Job(tmp_path, code("print('trained')"), "train.py", hosts=2)
    with Cluster(job) as cluster:
        cluster.hosts[1].rewrite("resourceconfig", **config)
        began = time.monotonic()
        assert cluster.run() == [status, status]
        assert time.monotonic() - began < 12
        first, second = cluster.hosts
        assert first.failure == second.failure
        assert first.failure.startswith(reason)
        assert "trained" not in first.output + second.output


def test_unreadable_hyperparameters_on_one_host_end_all(tmp_path, code):
    """A host that can't read its own job can still tell the others."""
    job = Job(
        tmp_path,
        code("print('trained')"),
        "train.py",
        hosts=2,
        environment={"TRAINING_JOB_NAME": "a-job"},
    )
    with Cluster(job) as cluster:
        path = cluster.hosts[0].folder / "input" / "config" / "hyperparameters.json"
        path.write_text('{"epochs": ')
        assert cluster.run() == [70, 70]
        first, second = cluster.hosts
        assert first.failure == second.failure
        assert "hyperparameters.json is not JSON" in first.failure


def test_last_ranks_that_hang_are_ended_with_their_stacks(tmp_path, code):
    """Some ranks done, others not, for too long: that is a failure, and says where they are."""
    script = """
        import os, time
        def wait_for_nobody():
            time.sleep(100)
        if os.environ["SM_CURRENT_HOST"] == "algo-2":
            wait_for_nobody()
    """
    environment = {"MUSTER_LAUNCHER": "plain", "MUSTER_STRAGGLE_S": "2"}
    job = Job(tmp_path, code(script), "train.py", hosts=2, environment=environment)
    with Cluster(job) as cluster:
        assert cluster.run() == [78, 78]
        first, second = cluster.hosts
        assert first.failure == second.failure
        assert first.failure.startswith("1 ranks are done, 1 still run 2 s later: 1 on algo-2\n")
        assert "in wait_for_nobody" in first.failure
        assert "in wait_for_nobody" in second.output


def test_the_secret_is_the_harnesss_own(tmp_path, code):
    """With MUSTER_JOB_SECRET hosts join from any address; the script does not see it, nor does
    anything that is written."""
    script = """
        import os
        print("secret", [n for n in os.environ if "JOB_SECRET" in n], flush=True)
    """
    environment = {"MUSTER_JOB_SECRET": "s3cr3t-of-this-job", "MUSTER_ADMIT": "secret"}
    job = Job(tmp_path, code(script), "train.py", hosts=2, environment=environment)
    with Cluster(job) as cluster:
        assert cluster.run() == [0, 0]
        for host in cluster.hosts:
            assert "secret []" in host.output
            assert "s3cr3t-of-this-job" not in host.output
        for path in tmp_path.rglob("*"):
            with contextlib.suppress(IsADirectoryError):
                assert b"s3cr3t-of-this-job" not in path.read_bytes()
