import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from muster.check import Ranks, after_plan
from muster.check.collective import measures, worlds
from muster.check.finding import Here
from muster.check.running import Running
from muster.errors import CheckError
from muster.model import Machine, Plan
from muster.settings import read_settings

RANK = """
import json, os, socket, sys, time
from pathlib import Path
host, slow, words = os.environ["HOST"], os.environ["SLOW"].split(), sys.argv[1:]
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place, hosts, calls = ("127.0.0.1", int(os.environ["MASTER_PORT"])), {host}, []
if rank == 0:
    listener = socket.create_server(place)
    calls = [listener.accept()[0] for _ in range(size - 1)]
    hosts |= {call.makefile().readline().strip() for call in calls}
    for call in calls:
        call.sendall((" ".join(hosts) + "\\n").encode())
else:
    while True:
        try:
            call = socket.create_connection(place)
            break
        except OSError:
            time.sleep(0.01)
    call.sendall((host + "\\n").encode())
    hosts |= set(call.makefile().readline().split())
"""
"""A rank of a benchmark that measures nothing: it meets the others, and learns which hosts they are on."""
WRITE = """
if rank == 0:
    ms = 500.0 if hosts & set(slow) else 5.0
    row = {"size": 4 << 20, "in_place": {"time": ms * 1e3, "bus_bw": 1 / ms}}
    told = {"results": [row], "muster": {"backend": "gloo", "world": size}}
    if "muster_perf.burn" in words:
        told = {"side": 512, "ranks": [{"milliseconds": 5.0, "digest": 7}] * size}
    Path(words[words.index("-J") + 1]).write_text(json.dumps(told))
"""


class Alone:
    """The meeting of a job of one host; `others` is what more hosts tell of a topic."""

    def __init__(self, host: str = "algo-1", others=None) -> None:
        self.host, self.others, self.topics = host, others or {}, []

    def during(self, work):
        return work()

    def consult(self, topic, data, judge):
        self.topics.append(topic)
        return json.loads(json.dumps(judge({self.host: data, **self.others.get(topic, {})})))


class Together:
    """The meeting of several hosts, each in a thread of this process; for one of them."""

    def __init__(self, hosts, host: str = "", shared=None) -> None:
        self.hosts, self.host = hosts, host
        self.topics, self.told, self.answers, self.barrier = shared or (
            *([], {}, {}),
            threading.Barrier(len(hosts), timeout=60),
        )

    def of(self, host: str) -> "Together":
        shared = self.topics, self.told, self.answers, self.barrier
        return Together(self.hosts, host, shared)

    def during(self, work):
        return work()

    def consult(self, topic, data, judge):
        self.told.setdefault(topic, {})[self.host] = json.loads(json.dumps(data))
        self.barrier.wait()
        if self.host == self.hosts[0]:
            self.topics.append(topic)
            ordered = {host: self.told[topic][host] for host in self.hosts}
            self.answers[topic] = json.loads(json.dumps(judge(ordered)))
        self.barrier.wait()
        return self.answers[topic]


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def plan() -> Plan:
    """Return what a host of a job runs."""
    return Plan(
        launcher="torchrun",
        host="algo-1",
        hosts=("algo-1",),
        node_rank=0,
        nproc=2,
        world_size=2,
        master_addr="127.0.0.1",
        master_port=free_port(),
        argv=(),
        cwd="/",
        env={},
        rank_env={},
        names={"127.0.0.1": "algo-1"},
    )


@pytest.fixture
def python(tmp_path):
    """Return a function that makes a Python whose benchmark is a few lines."""

    def make(text: str, name: str = "python") -> str:
        path = tmp_path / name
        path.write_text(
            f"#!{sys.executable}\nimport os, sys, time\nrank = int(os.environ['RANK'])\n{text}\n"
        )
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def look(make_job, plan, tmp_path):
    """Return a function that lets one host's ranks add something up."""

    def run(
        python, *, meeting=None, level="full", sizes=(2,), gpus=0, env=None, of=plan, **settings
    ):
        machine = Machine(cpus=2, gpus=gpus, interfaces=("eth0",), shm=0)
        job = make_job(machine=machine, checkpoints=str(tmp_path))
        env = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", **(env or {})}
        read = read_settings({name.upper(): value for name, value in settings.items()})
        running = Running((), Here(job, read, env, 2, "full"), read.severities)
        running.collectives = level
        ranks = Ranks(python, sizes, of.node_rank, gpus=bool(gpus))
        after_plan(of, ranks, running, meeting or Alone(of.host))
        return running.later

    return run


@pytest.fixture
def several(look, plan, python):
    """Return a function that runs the steps of several hosts; each host's results, or its error, and the topics."""

    def run(hosts, slow=(), text=WRITE, **settings):
        meeting, found = Together(hosts), {}
        program = python(RANK + text)

        def one(index, host):
            env = {"HOST": host, "SLOW": " ".join(slow)}
            own = replace(plan, host=host, hosts=hosts, node_rank=index, names={})
            try:
                found[host] = look(
                    program,
                    meeting=meeting.of(host),
                    sizes=(1,) * len(hosts),
                    env=env,
                    of=own,
                    **settings,
                )
            except CheckError as error:
                found[host] = error

        threads = [threading.Thread(target=one, args=each) for each in enumerate(hosts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found, meeting.topics

    return run


OTHER = {"port": 1, "kind": ["ml.m5.large", 2], "gpus": False, "whole": False, "refused": {}}
"""What another host tells of itself."""
FOUR = ("algo-1", "algo-2", "algo-3", "algo-4")


def test_two_ranks_meet_and_add_up(look, capfd):
    """The real benchmark runs over gloo, and the log says what it has measured."""
    found = look(sys.executable)
    assert {name: one.status for name, one in found.items()} == {
        "collective.burn": "PASS",
        "collective.host": "SKIP",
        "collective.job": "PASS",
        "collective.horovod": "SKIP",
        "collective.pairs": "SKIP",
    }
    assert found["collective.job"].evidence.startswith("4M over 2 ranks by gloo: ")
    assert "(64K 0." in found["collective.job"].evidence
    assert found["collective.job"].evidence.endswith(
        "not judged: no number is known for all_reduce on 1 x ml.m5.large: record a good run (-J)"
    )
    assert "2 ranks, " in found["collective.burn"].evidence
    assert "PASS    collective.job" in capfd.readouterr().err


def test_a_good_run_of_ones_own(look, tmp_path):
    """What the job has recorded in its checkpoints is what it is held against, and the verdict says so."""
    row = {"size": 4 << 20, "out_of_place": {"bus_bw": 1e6}, "in_place": {"bus_bw": 1e6}}
    own = {"collective": "all_reduce", "hosts": 1, "instance_type": "ml.m5.large", "world": 2}
    run = {"start_time": "2026-12-01", "results": [row], "muster": own}
    (tmp_path / "muster-baseline.json").write_text(json.dumps(run), encoding="utf-8")
    with pytest.raises(
        CheckError,
        match=r"expected 1e\+06 GB/s \(recorded: .*, and below 5e\+05 something is wrong",
    ):
        look(sys.executable)


def test_a_named_run_that_is_not_there(look, tmp_path):
    """MUSTER_BASELINE that can't be read is a warning with its name, and ends nothing."""
    off = "collective.burn=off"
    absent = str(tmp_path / "absent.json")
    found = look(sys.executable, muster_baseline=absent, muster_checks=off)["collective.job"]
    assert found.status == "WARN"
    assert f"{absent} can't be read: No such file or directory" in found.evidence
    assert "MUSTER_BASELINE" in found.remedy


def test_a_rank_that_fails(look, python):
    """Its own last words are the evidence, at once, though the other rank still waits."""
    began = time.monotonic()
    program = python("print('no such device') or sys.exit(3) if rank else time.sleep(50)")
    with pytest.raises(
        CheckError, match=r"collective\.burn on algo-1: rank 1: no such device"
    ) as error:
        look(program)
    assert time.monotonic() - began < 10
    assert "MUSTER_CHECKS=collective.burn=warn" in error.value.remedy


def test_a_rank_that_crashes(look, python):
    """The signal is its own; those that were ended for it are not named."""
    program = python("os.kill(os.getpid(), 11) if rank else time.sleep(50)")
    with pytest.raises(CheckError, match="rank 1: killed by signal 11"):
        look(program)


def test_ranks_that_never_meet(look, python, monkeypatch):
    """They cost their time and no more, and nothing of them is left."""
    monkeypatch.setattr(measures, "MEET_S", 0.5)
    with pytest.raises(CheckError, match="2 ranks have not met within 0 s"):
        look(python("time.sleep(50)"))


def test_ranks_that_meet_and_never_end(look, python, monkeypatch):
    """From then on another time runs: how long a first import takes is no matter of theirs."""
    monkeypatch.setattr(worlds, "LIMIT_S", 0.5)
    monkeypatch.setattr(measures, "MEET_S", 20.0)
    began = time.monotonic()
    with pytest.raises(CheckError, match="2 ranks have not ended within 0 s"):
        look(python("open(os.environ['MUSTER_MET'], 'w'); time.sleep(50)"))
    assert time.monotonic() - began < 15


def test_a_warning_goes_on(look, python):
    """As the user wants it."""
    off = "collective.burn=off,collective.job=warn"
    found = look(python("sys.exit(3)"), muster_checks=off)
    assert [found[name].status for name in ("collective.burn", "collective.job")] == [
        "SKIP",
        "WARN",
    ]


@pytest.mark.parametrize(
    ("text", "checks", "why"),
    [
        (
            "sys.exit('/usr/bin/python3: No module named muster_perf')",
            "host.shm=off",
            "in the script's Python: /usr/bin/python3: No module named muster_perf",
        ),
        (
            "sys.exit(\"ModuleNotFoundError: No module named 'torch'\")",
            "host.shm=off",
            "in the script's Python: ModuleNotFoundError: No module named 'torch'",
        ),
        ("sys.exit(9)", "collective.burn=off,collective.job=off", "it is switched off"),
    ],
)
def test_nothing_to_run(look, python, text, checks, why):
    """A Python without the benchmark, or a user who wants none, is no failure."""
    found = look(python(text), muster_checks=checks)["collective.job"]
    status = "SKIP" if why.startswith("it is") else "UNKNOWN"
    assert (found.status, found.evidence) == (status, why)


def test_nothing_where_the_hosts_have_agreed_on_nothing(look, python):
    """No process is started, and nobody is consulted."""
    meeting = Alone()
    assert look(python("sys.exit(9)"), meeting=meeting, level="") == {}
    assert meeting.topics == []


def test_one_rank(look, python):
    """It has nothing to add up; at the level fast it is not even started."""
    found = look(python("sys.exit(9)"), sizes=(1,), level="fast", gpus=1)
    assert {one.status for one in found.values()} == {"SKIP"}


def test_hosts_that_train_by_themselves(plan, look, python):
    """There is no world to add up; a host outside of the training groups only listens."""
    plain = replace(plan, launcher="plain")
    found = look(python("sys.exit(9)"), of=plain, muster_checks="collective.burn=off")
    assert found["collective.job"].evidence == "the launcher is plain: hosts train by themselves"
    outside = replace(plain, rank_env={"MUSTER_IN_WORLD": "0"})
    refused = dict.fromkeys(("collective.horovod", "collective.pairs"), "one host")
    alone = {**OTHER, "hosts": ["algo-2"], "refused": refused}
    others = {
        "collective": {"algo-2": alone},
        **{
            f"collective.{name}": {"algo-2": ["ok", "", {}, 0.1]}
            for name in ("burn", "host", "job")
        },
    }
    meeting = Alone(others=others)
    # It is told of the world's ranks, and is none of its hosts.
    found = look(python("sys.exit(9)"), of=outside, sizes=(2, 2), meeting=meeting)
    assert {one.evidence for one in found.values()} == {
        "this host's group does not train",
        "one host",
    }


def test_who_has_failed_first_ends_the_job(look, plan, python):
    """The others have only lost their connection, or waited in vain."""
    two = replace(plan, hosts=("algo-1", "algo-2"), names={})
    mine = python("sys.exit(3)")

    def end_with(kind, seconds):
        told = [kind, "rank 7: CUDA error", {}, seconds]
        book = {"hosts": two.hosts, **OTHER}
        others = {"collective": {"algo-2": book}, "collective.job": {"algo-2": told}}
        off = "collective.burn=off,collective.host=off,collective.pairs=off"
        meeting = Alone(others=others)
        return look(mine, of=two, sizes=(2, 2), meeting=meeting, muster_checks=off)

    assert end_with("failed", 0.001)["collective.job"].status == "FAIL"
    with pytest.raises(CheckError, match="on algo-1: rank 0: status 3"):
        end_with("late", 0.001)


def test_all_hosts_are_well(several):
    """One round of pairs at the level full, and every host has its own results."""
    found, topics = several(FOUR)
    assert topics == ["collective", "collective.burn", "collective.job", "collective.pairs 1"]
    for host in FOUR:
        assert found[host]["collective.pairs"].status == "PASS"
        assert found[host]["collective.pairs"].evidence == "2 pairs: 5.0 to 5.0 ms"


@pytest.mark.parametrize("slow", FOUR)
def test_a_slow_host_is_named(several, slow, capfd):
    """Among four, by the second round; without GPUs it is a warning."""
    found, topics = several(FOUR, [slow])
    assert topics[-2:] == ["collective.pairs 1", "collective.pairs 2"]
    statuses = {host: found[host]["collective.pairs"].status for host in FOUR}
    assert {host for host, status in statuses.items() if status != "PASS"} == {slow}
    assert statuses[slow] == "WARN"
    assert f"did well ({slow})" in capfd.readouterr().err


def test_a_host_that_breaks_every_world_it_is_in(several):
    """The whole job's failure leads to the pairs at the level fast, too, and they name the host, on which it ends."""
    text = "if 'algo-3' in hosts and size > 1: sys.exit('wrong values')\n" + WRITE
    found, topics = several(FOUR, text=text, level="fast", gpus=1, muster_efa="off")
    assert topics == ["collective", "collective.job", "collective.pairs 1", "collective.pairs 2"]
    error = found.pop("algo-3")
    assert isinstance(error, CheckError)
    assert error.what.startswith("check collective.pairs on algo-3: with algo-4: rank ")
    assert error.what.endswith("with others algo-4 and algo-1 did well")
    assert not any(isinstance(each, CheckError) for each in found.values())


def test_two_hosts_can_only_be_told_together(several):
    """Nobody can say which of them it is: it ends with what the whole job's ranks have said."""
    text = "if size > 1: sys.exit('wrong values')\n" + WRITE
    found, _ = several(FOUR[:2], text=text)
    errors = [each for each in found.values() if isinstance(each, CheckError)]
    assert len(errors) == 1
    assert re.match(r"check collective\.job on algo-[12]: rank [01]: wrong values", errors[0].what)


def test_of_two_hosts_the_one_that_has_failed(several):
    """The other one has only waited for it."""
    text = "if host == 'algo-2' and size > 1: sys.exit('broken here')\n" + WRITE
    found, _ = several(FOUR[:2], text=text)
    assert isinstance(found["algo-2"], CheckError)
    assert found["algo-2"].what == "check collective.job on algo-2: rank 1: broken here"


LOG = """
if int(os.environ["WORLD_SIZE"]) > 1:
    Path(os.environ["NCCL_DEBUG_FILE"].replace("%p", "1")).write_text(
        "algo-1:1:1 [0] NCCL INFO Using network Socket\\n")
"""


@pytest.mark.parametrize(("efa", "status"), [("require", "FAIL"), ("auto", "PASS")])
def test_the_network_that_nccl_has_picked(several, efa, status):
    """By its own log: sockets, where EFA is to be used, end the job; where there is none they are what there is."""
    found, _ = several(FOUR[:2], text=LOG + WRITE, level="fast", gpus=1, muster_efa=efa)
    if status == "FAIL":
        (error,) = [each for each in found.values() if isinstance(each, CheckError)]
        assert "check efa.nccl on algo-" in error.what
        assert "NCCL uses Socket, not EFA" in error.what
        return
    for host in FOUR[:2]:
        assert found[host]["efa.nccl"].evidence == "NCCL uses Socket"
        assert found[host]["efa.errors"].status == "SKIP"
        assert found[host]["gpu.nvlink_growth"].status == "SKIP"


def test_hosts_without_the_benchmark(several):
    """None is to blame: what could not be tried is skipped, also in pairs."""
    found, topics = several(FOUR, text="sys.exit('python3: No module named muster_perf')")
    assert "collective.pairs 1" not in topics
    for host in FOUR:
        assert found[host]["collective.job"].status == "UNKNOWN"


def test_a_search_that_the_user_does_not_want(several):
    """A warning for the whole job is one for the pairs: they only tell which host it is."""
    text = "if 'algo-3' in hosts and size > 1: sys.exit('wrong values')\n" + WRITE
    found, _ = several(FOUR, text=text, muster_checks="collective.job=warn")
    assert found["algo-3"]["collective.pairs"].status == "WARN"


def test_with_exec_nothing_is_tried_together(plan, look, python):
    """The harnesses of a job with MUSTER_EXEC=1 know nothing of each other."""
    two = replace(plan, hosts=("algo-1", "algo-2"), names={})
    found = look(
        python("sys.exit(9)"),
        of=two,
        sizes=(1, 1),
        muster_exec="1",
        muster_checks="collective.burn=off",
    )
    assert {one.status for one in found.values()} == {"SKIP"}
    assert found["collective.job"].evidence == "with MUSTER_EXEC=1 the hosts don't meet"


def test_more_ranks_than_gpus(look, python):
    """NCCL does not take two ranks a GPU; the script may."""
    found = look(python("sys.exit(9)"), level="fast", gpus=1, sizes=(2,))
    assert found["collective.job"].evidence == "there are more ranks than GPUs"


def test_no_python_at_all(look):
    """A shell script may do without."""
    assert look("")["collective.burn"].evidence == "there is no Python for the ranks"


def test_nothing_is_started_after_the_end(plan, python, tmp_path):
    """The job may end while the ranks are being started: none stays behind, and none is started any more."""
    mark = tmp_path / "begun"
    program = python(f"open({str(mark)!r}, 'a').write('x'); time.sleep(50)")
    ranks = Ranks(program, (2,), 0, gpus=False)
    held = worlds.Worlds(plan, ranks, {"PATH": "/usr/bin:/bin"})
    world = worlds.World("127.0.0.1", 1, 0, 2, 2)
    thread = threading.Thread(target=held.hold, args=(world, ["muster_perf"], {}, 60.0))
    thread.start()
    while not mark.exists() or mark.read_text() != "xx":
        time.sleep(0.01)
    began = time.monotonic()
    held.end()
    thread.join()
    assert time.monotonic() - began < 10
    held.hold(world, ["muster_perf"], {}, 60.0)
    assert mark.read_text() == "xx"


def test_ranks_end_with_who_has_started_them(tmp_path, python):
    """By whatever: a harness that was killed leaves none."""
    mark = tmp_path / "pid"
    program = python(f"open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(50)")
    code = (
        "import sys; from muster import tied; import subprocess, time\n"
        "subprocess.Popen(tied.command([sys.argv[1], '-m', 'x']), start_new_session=True, env={'RANK': '0'}); time.sleep(50)"
    )
    with subprocess.Popen([sys.executable, "-c", code, program]) as harness:
        while not mark.exists() or not mark.read_text():
            time.sleep(0.01)
        harness.kill()
    rank = int(mark.read_text())
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{rank}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{rank}")


def test_no_room_for_temporary_files(look, python, monkeypatch):
    """It could not be looked at, and the job goes on."""
    monkeypatch.setattr(worlds, "_TEMPORARY", ("/nowhere", "/nowhere/else"))
    found = look(python("sys.exit(9)"))["collective.job"]
    assert found.status == "UNKNOWN"
    assert "can't be started: No such file or directory" in found.evidence
