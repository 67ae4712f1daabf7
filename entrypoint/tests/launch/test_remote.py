"""Remote start, between two hosts whose channel is a queue: real callers, real programs."""

from __future__ import annotations

import os
import select
import selectors
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

import pytest

from muster.channel.relay import relay
from muster.channel.roster import Roster
from muster.channel.wire import WireError
from muster.launch import children
from muster.launch.remote import RemoteStart
from muster.launch.rsh import main, parse
from muster.launch.spawned import Spawned

ODD = "a b\t'single' \"double\" $HOME `id` $(id) * ; & | < > \\ # ü 🎈"


class Pair:
    """Two hosts, a leader that passes messages on, and the loop that moves them."""

    def __init__(self, folder: Path) -> None:
        self.selector = selectors.DefaultSelector()
        self.roster = Roster(["algo-1", "algo-2"])
        self.queue: deque[tuple[str, dict]] = deque()
        self.refusal = ""
        self.largest = 0
        self.on_the_way = 0
        self.hosts = {}
        for name in ("algo-1", "algo-2"):
            (folder / name).mkdir()
            env = {**os.environ, "HOST": name}
            host = RemoteStart(lambda m, name=name: self._tell(name, m), str(folder / name), env)
            host.open({"10.0.0.2": "algo-2"})
            host.watch(self.selector)
            self.hosts[name] = host

    def _tell(self, sender: str, message: dict) -> None:
        if message["type"] == "output":
            self.on_the_way += len(message["data"])
            self.largest = max(self.largest, self.on_the_way)
        relay(self.roster, sender, message, lambda to, m: self.queue.append((to, m)), self.refusal)

    def call(self, *words: str, **options) -> subprocess.Popen:
        """A muster-rsh on algo-1."""
        env = {**os.environ, "MUSTER_RSH": self.hosts["algo-1"].address}
        command = [sys.executable, "-m", "muster.launch.rsh", *words]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=env, **(streams | options))

    def readable(self, caller: subprocess.Popen) -> bool:
        """Whether something has come of the program."""
        return bool(select.select([caller.stdout], [], [], 0)[0])

    def turn(self) -> None:
        for key, _ in self.selector.select(0.02):
            key.data()
        while self.queue:
            to, message = self.queue.popleft()
            if message["type"] == "output":
                self.on_the_way -= len(message["data"])
            self.hosts[to].heed(message)
        own = {pid: p for host in self.hosts.values() for pid, p in host.processes.items()}
        for process in own.values():
            process.poll()
        for host in self.hosts.values():
            host.look()

    def until(self, done, timeout: float = 20) -> None:
        deadline = time.monotonic() + timeout
        while not done():
            assert time.monotonic() < deadline
            self.turn()

    def run(self, *words: str) -> tuple[int, bytes, bytes]:
        """Status, stdout and stderr of one call."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            caller = self.call(*words, stdout=out, stderr=err)
            self.until(lambda: caller.poll() is not None)
            return caller.returncode, *(file.seek(0) or file.read() for file in (out, err))


@pytest.fixture
def pair(tmp_path):
    """Two hosts; what runs on them is ended."""
    both = Pair(tmp_path)
    yield both
    for host in both.hosts.values():
        for process in host.processes.values():
            process.kill()
            process.wait()
        host.close()


def test_a_command_runs_on_the_other_host(pair):
    """With that host's environment, its streams apart, and its own status."""
    status, out, err = pair.run("algo-2", "echo $HOST; echo to stderr >&2; exit 7")
    assert (status, out, err) == (7, b"algo-2\n", b"to stderr\n")


def test_a_signal_is_told_as_a_shell_tells_it(pair):
    """128 + 9, and not 255, which is ssh's own."""
    assert pair.run("algo-2", "kill -9 $$")[0] == 137


def test_arguments_arrive_byte_for_byte(pair):
    """What is quoted for a shell reaches the program as it was, line ends included."""
    text = ODD + "\nsecond line"
    status, out, _ = pair.run("algo-2", f"printf %s {shlex.quote(text)}")
    assert (status, out.decode()) == (0, text)


def test_bytes_that_are_no_utf_8_arrive(pair):
    """A file's name need not be text."""
    name = os.fsdecode(b"caf\xe9")
    assert pair.run("algo-2", f"printf %s '{name}'")[1] == b"caf\xe9"


def test_words_are_joined_as_ssh_joins_them(pair):
    """Several words are one command line, and the other host's shell reads it."""
    assert pair.run("algo-2", "echo", "$HOST", "and", "more")[1] == b"algo-2 and more\n"


def test_stdin_is_closed(pair):
    """A program that reads its input finds the end at once."""
    assert pair.run("algo-2", "cat; echo over")[1] == b"over\n"


def test_an_address_is_a_host(pair):
    """Launchers may have been given addresses."""
    assert pair.run("10.0.0.2", "echo $HOST")[1] == b"algo-2\n"


def test_a_host_may_ask_itself(pair):
    """Horovodrun does, when it does not know its own name."""
    assert pair.run("algo-1", "echo $HOST")[1] == b"algo-1\n"


def test_much_output_is_whole_and_bounded(pair):
    """Megabytes arrive, and never more than a window of them is on its way."""
    status, out, _ = pair.run("algo-2", "head -c 5000000 /dev/zero | tr '\\0' x; echo end")
    assert (status, len(out), out[-4:]) == (0, 5_000_004, b"end\n")
    assert pair.largest < 500_000


def test_a_reader_that_stops_holds_the_program_up(pair):
    """Its output waits in its own pipe, not in the harness."""
    caller = pair.call("algo-2", "head -c 50000000 /dev/zero; echo done")
    began = time.monotonic()
    while time.monotonic() - began < 2:
        pair.turn()
    assert pair.on_the_way < 500_000
    assert sum(len(c.backlog) for c in pair.hosts["algo-1"]._callers.values()) < 1_000_000
    caller.kill()
    caller.communicate()
    pair.until(lambda: not pair.hosts["algo-2"].processes)


@pytest.mark.parametrize(
    ("refusal", "host", "why"),
    [
        ("the job's ranks have not begun", "algo-2", "the job's ranks have not begun"),
        ("", "algo-9", "algo-9 is no host of this job"),
    ],
)
def test_what_can_not_be_started_is_255(pair, refusal, host, why):
    """With the reason on stderr, as ssh tells it."""
    pair.refusal = refusal
    status, _, err = pair.run(host, "true")
    assert status == 255
    assert why in err.decode()


def test_a_lost_host_is_255(pair):
    """The leader knows that it is gone."""
    pair.roster["algo-2"].lost = True
    status, _, err = pair.run("algo-2", "true")
    assert (status, b"algo-2 was lost" in err) == (255, True)


def test_an_end_without_a_status_is_255(pair):
    """The harness has gone: never 0."""
    caller = pair.call("algo-2", "sleep 60")
    pair.until(lambda: pair.hosts["algo-2"].processes)
    pair.hosts["algo-1"].close()
    assert caller.wait(10) == 255
    assert b"ended before the command did" in caller.communicate()[1]


def test_a_host_that_is_ending_starts_nothing(pair):
    """Neither for itself nor for others, and what runs there is ended."""
    script = "trap '' TERM; echo up; sleep 60 & wait; sleep 60"
    caller = pair.call("algo-2", script)
    pair.until(lambda: pair.readable(caller))
    pair.hosts["algo-2"].end(0.2)
    pair.until(lambda: caller.poll() is not None)
    assert caller.communicate()
    assert caller.returncode == 137
    status, _, err = pair.run("algo-2", "true")
    assert (status, b"the job is ending" in err) == (255, True)


def is_group(number: int) -> bool:
    """Whether a process of the group is left."""
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_when_the_caller_goes_the_program_is_ended(pair, tmp_path):
    """It is asked first; its children go with it."""
    saved = tmp_path / "saved"
    script = f"trap 'touch {saved}; exit 0' TERM; sleep 60 & echo up; wait"
    caller = pair.call("algo-2", script)
    pair.until(lambda: pair.readable(caller))
    (process,) = pair.hosts["algo-2"].processes.values()
    caller.send_signal(signal.SIGKILL)
    caller.communicate()
    pair.until(lambda: not pair.hosts["algo-2"].processes)
    assert saved.exists()
    # The last of them is killed, and then gone as soon as somebody has waited for it.
    pair.until(lambda: not is_group(process.pid))


def test_a_closed_host_refuses(tmp_path):
    """A job whose launcher starts nothing elsewhere has no socket, and does nothing for others."""
    told: list[dict] = []
    host = RemoteStart(told.append, str(tmp_path), {})
    host.watch(selectors.DefaultSelector())
    host.heed({"type": "spawn", "from": "algo-1", "id": 1, "command": "touch /tmp/never"})
    assert told == [
        {
            "type": "exited",
            "status": 255,
            "why": "nothing in this job starts programs on other hosts",
            "to": "algo-1",
            "id": 1,
        }
    ]
    assert not Path(host.address).exists()
    host.close()


def test_the_socket_is_for_this_user_alone(pair):
    """Nobody else on the host may start programs on the others."""
    assert os.stat(pair.hosts["algo-1"].address).st_mode & 0o777 == 0o600


def test_orphans_are_reaped_and_programs_keep_their_status():
    """The reaper of orphans leaves what has a Popen to it: a status of 7 stays 7."""
    told: list[dict] = []
    selector = selectors.DefaultSelector()
    spawned = Spawned("exit 7", dict(os.environ), told.append, selector)
    process = spawned.process
    assert process
    deadline = time.monotonic() + 10
    while not spawned.told and time.monotonic() < deadline:
        for key, _ in selector.select(0.05):
            key.data()
        children.reap_orphans({process.pid: process})
        spawned.look()
    assert told[-1] == {"type": "exited", "status": 7, "why": ""}


@pytest.mark.parametrize(
    ("words", "host", "command"),
    [
        (["algo-2", "true"], "algo-2", "true"),
        (["-x", "algo-2", "orted -mca a b"], "algo-2", "orted -mca a b"),
        (["-o", "BatchMode=yes", "-p", "22", "root@algo-2", "a", "b c"], "algo-2", "a b c"),
        # As horovodrun writes it: options behind the host as well.
        (
            [
                "-o",
                "PasswordAuthentication=no",
                "-oStrictHostKeyChecking=no",
                "algo-2",
                "-o",
                "ConnectTimeout=10",
                "-p",
                "22",
                "-i",
                "key",
                "true",
            ],
            "algo-2",
            "true",
        ),
        (["-tt", "-l", "root", "--", "algo-2", "ls", "-l"], "algo-2", "ls -l"),
        (["algo-2"], "algo-2", ""),
        ([], "", ""),
    ],
)
def test_the_words_of_ssh(words, host, command):
    """Options are ssh's business, and there is none: they are read over, in front of the host and behind."""
    assert parse(words) == (host, command)


def test_wrong_calls_are_told(monkeypatch, capfd):
    """Without a host, without a harness: 255 and one line."""
    monkeypatch.delenv("MUSTER_RSH", raising=False)
    assert main([]) == 255
    assert main(["algo-2", "true"]) == 255
    monkeypatch.setenv("MUSTER_RSH", "/nowhere.sock")
    assert main(["algo-2", "true"]) == 255
    lines = capfd.readouterr().err.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["muster-rsh"] * 3


@pytest.mark.parametrize(
    "message",
    [
        {"type": "spawn", "to": "algo-2", "id": 1},
        {"type": "spawn", "to": "algo-2", "id": "one", "command": "true"},
        {"type": "spawn", "to": 7, "id": 1, "command": "true"},
        {"type": "spawn", "to": "algo-2", "id": 1, "command": "x" * 600_000},
        {"type": "output", "to": "algo-2", "id": 1, "stream": "out", "data": ""},
        {"type": "output", "to": "algo-2", "id": 1, "stream": 1, "data": "x" * 300_000},
        {"type": "exited", "to": "algo-2", "id": 1, "status": None, "why": ""},
        {"type": "ate", "to": "algo-2", "id": 1, "size": True},
    ],
)
def test_nonsense_is_not_passed_on(message):
    """The leader drops who sends it, as it does with every other message."""
    passed = []
    with pytest.raises(WireError):
        relay(Roster(["algo-1", "algo-2"]), "algo-1", message, lambda *m: passed.append(m), "")
    assert passed == []
