"""The rank shim as a real process. The harness is played by this test, by the words alone.

What they say to each other is written out here once more, on purpose: a rank of one
image may meet the harness of another.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SHIM = [sys.executable, "-I", "-m", "muster.launch.shim"]
PATIENCE_S = 10
HELD_S = 0.2

SLOW_FORK_S = 0.3
SLOW_FORK = f"""
import os, sys, time
from muster.launch.shim import main
os.register_at_fork(after_in_child=lambda: time.sleep({SLOW_FORK_S}))
main(sys.argv[1:])
"""
SLOW_SHIM = [sys.executable, "-c", SLOW_FORK]
"""The shim as on a busy machine: its child sleeps before it does anything."""

RELEASE = {"type": "release"}

CAREFUL = """
import os, signal, sys
def tell(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b"\\n")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, tell)
signal.signal(signal.SIGUSR2, lambda *_: os._exit(3))
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""
"""Says which signals came, and ends with status 3 at SIGUSR2."""


def signal_(number: int, *, group: bool = False) -> dict[str, Any]:
    return {"type": "signal", "number": int(number), "group": group}


class Harness:
    """One shim and this end of its conversation."""

    def __init__(self, folder: str, env: dict[str, str]) -> None:
        self.address = os.path.join(folder, "s")
        self.env = env
        self.fds: list[int] = []
        self.shim: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.address)
        self._listener.listen()
        self._listener.settimeout(PATIENCE_S)
        self.conn: socket.socket | None = None

    def begin(
        self, *command: str, env: dict[str, str] | None = None, shim: list[str] = SHIM
    ) -> dict[str, Any]:
        """Start a shim and hear its hello."""
        self.shim = subprocess.Popen(
            [*shim, "--", *command],
            env={**self.env, "MUSTER_SOCKET": self.address, **(env or {})},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.conn, _ = self._listener.accept()
        self.conn.settimeout(PATIENCE_S)
        data, self.fds, _, _ = socket.recv_fds(self.conn, 65536, 8)
        assert data.endswith(b"\n")
        return json.loads(data)

    def run(self, *command: str, env: dict[str, str] | None = None, shim: list[str] = SHIM) -> int:
        """Start a shim and let its script start; the script's pid."""
        self.begin(*command, shim=shim)
        self.send({"type": "start", "env": env or {}})
        started = self.hear()
        assert set(started) == {"type", "pid"}
        assert started["type"] == "started"
        return started["pid"]

    def send(self, message: dict[str, Any]) -> None:
        assert self.conn
        self.conn.sendall(json.dumps(message).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        assert self.conn
        while b"\n" not in self._buffer:
            data = self.conn.recv(65536)
            assert data, "the shim has hung up"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def hear_end(self) -> int:
        """The code that the shim reports."""
        ended = self.hear()
        assert set(ended) == {"type", "code", "time"}
        assert ended["type"] == "ended"
        assert abs(ended["time"] - time.time()) < PATIENCE_S
        return ended["code"]

    def hang_up(self) -> None:
        assert self.conn
        self.conn.close()

    def read(self, which: int, until: bytes | None = None) -> bytes:
        """What came on a pipe, to its end or to `until`."""
        data = b""
        deadline = time.monotonic() + PATIENCE_S
        while until is None or not data.endswith(until):
            rest = deadline - time.monotonic()
            assert rest > 0, f"only {data!r} came"
            if select.select([self.fds[which]], [], [], rest)[0]:
                piece = os.read(self.fds[which], 65536)
                if not piece:
                    return data
                data += piece
        return data

    def wait(self) -> int:
        """How the shim itself ended."""
        assert self.shim
        return self.shim.wait(PATIENCE_S)

    def close(self) -> None:
        if self.shim:
            with contextlib.suppress(ProcessLookupError):
                self.shim.kill()
            self.shim.wait(PATIENCE_S)
        for fd in self.fds:
            os.close(fd)
        if self.conn:
            self.conn.close()
        self._listener.close()


@pytest.fixture
def harness(clean_env: dict[str, str]) -> Iterator[Harness]:
    """Return a harness that waits for one shim."""
    # Short: the path of a unix socket has 108 bytes at most.
    folder = tempfile.mkdtemp(prefix="mu-")
    harness = Harness(folder, clean_env)
    yield harness
    harness.close()
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("env", "rank", "local_rank"),
    [
        ({"RANK": "5", "LOCAL_RANK": "1"}, 5, 1),
        ({}, None, None),
        ({"RANK": "x"}, None, None),
        # mpirun's and horovodrun's own words, which win over what is left over.
        ({"OMPI_COMM_WORLD_RANK": "9", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "RANK": "0"}, 9, 1),
        ({"HOROVOD_RANK": "3", "HOROVOD_LOCAL_RANK": "0"}, 3, 0),
    ],
)
def test_hello(harness, env: dict[str, str], rank: int | None, local_rank: int | None):
    """The shim says who it is, and hands over the read ends of two pipes, before anything runs."""
    hello = harness.begin("true", env=env)
    assert hello == {
        "type": "hello",
        "rank": rank,
        "local_rank": local_rank,
        "pid": harness.shim.pid,
    }
    assert len(harness.fds) == 2
    for fd in harness.fds:
        assert stat.S_ISFIFO(os.fstat(fd).st_mode)


def test_output_comes_apart(harness):
    """Stdout and stderr arrive each on its own pipe, byte for byte, and end with the script."""
    harness.run("sh", "-c", r"printf 'out\0\377'; printf err >&2")
    assert harness.read(0) == b"out\0\xff"
    assert harness.read(1) == b"err"


def test_the_pipes_can_be_opened_again(harness):
    """A shell may write to /dev/stdout and /dev/stderr, as many scripts do."""
    harness.run("sh", "-c", "echo x > /dev/stdout; echo y > /dev/stderr")
    assert harness.read(0) == b"x\n"
    assert harness.read(1) == b"y\n"
    assert harness.hear_end() == 0


def test_the_harness_variables_win(harness):
    """This host's variables replace inherited ones; the others stay; the socket is no one else's."""
    harness.begin("env", "-0", env={"SM_CURRENT_HOST": "algo-1", "MINE": "a\nb"})
    given = {"SM_CURRENT_HOST": "algo-2", "SM_HPS": '{"größe":"x y"}', "EMPTY": ""}
    harness.send({"type": "start", "env": given})
    found = dict(line.split("=", 1) for line in harness.read(0).decode().split("\0") if "=" in line)
    assert {name: found.get(name) for name in (*given, "MINE")} == {**given, "MINE": "a\nb"}
    assert found["PATH"] == harness.env["PATH"]
    assert "MUSTER_SOCKET" not in found


def test_a_start_of_any_length(harness):
    """Variables that need many reads arrive whole."""
    harness.run("sh", "-c", "echo ${#A} ${#B} ${#C}", env=dict.fromkeys("ABC", "x" * 120_000))
    assert harness.read(0) == b"120000 120000 120000\n"


def test_arguments_arrive_as_they_are(harness):
    """No shell sees the script's arguments."""
    words = ["a b", "$HOME", "`id`", "x; echo y", "*", "", "--", "größe", "\n"]
    code = "import json, sys; print(json.dumps(sys.argv[1:]))"
    harness.run(sys.executable, "-c", code, *words)
    assert json.loads(harness.read(0)) == words


@pytest.mark.parametrize("code", [0, 1, 2, 33, 127, 128, 255])
def test_an_exit_code_is_exact_and_held(harness, code: int):
    """The code is reported at once; the shim stays until it is released, and ends the same way."""
    harness.run("sh", "-c", f"exit {code}")
    assert harness.hear_end() == code
    with pytest.raises(subprocess.TimeoutExpired):
        harness.shim.wait(HELD_S)
    harness.send(RELEASE)
    assert harness.wait() == code


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGUSR1, 35],
    ids=str,
)
def test_death_by_a_signal_is_exact_and_held(harness, number: int):
    """A script that a signal ended is reported so, and the released shim dies of the same."""
    harness.run("sh", "-c", f"kill -{int(number)} $$")
    assert harness.hear_end() == -number
    with pytest.raises(subprocess.TimeoutExpired):
        harness.shim.wait(HELD_S)
    harness.send(RELEASE)
    assert harness.wait() == -number


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        ("no-such-command", 127, b"No such file or directory"),
        ("./data", 126, b"Permission denied"),
        ("./text", 126, b"Exec format error"),
    ],
)
def test_a_command_that_cannot_be_run(harness, tmp_path, monkeypatch, command, code, reason):
    """A command that isn't there or isn't executable has a shell's status, and says why on stderr."""
    (tmp_path / "data").touch(mode=0o644)
    (tmp_path / "text").write_text("no program")
    (tmp_path / "text").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    harness.run(command)
    assert harness.hear_end() == code
    assert harness.read(1) == b"muster: %s can't be run: %s\n" % (command.encode(), reason)


def test_signals_sent_to_the_shim_do_nothing(harness):
    """A launcher that signals its ranks does not reach the script: the harness alone does."""
    harness.run(sys.executable, "-c", CAREFUL)
    harness.read(0, b"ready\n")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT):
        harness.shim.send_signal(number)
    harness.send(signal_(signal.SIGUSR2))
    assert harness.hear_end() == 3
    assert harness.read(0) == b""
    assert harness.shim.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1], ids=str)
def test_a_signal_message_is_delivered_once(harness, number: int):
    """The script gets a signal that the harness sends exactly once."""
    harness.run(sys.executable, "-c", CAREFUL)
    harness.read(0, b"ready\n")
    harness.send(signal_(number))
    name = signal.Signals(number).name.encode() + b"\n"
    assert harness.read(0, b"\n") == name
    harness.send(signal_(signal.SIGUSR2))
    assert harness.hear_end() == 3
    assert harness.read(0) == b""


PARENT = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
child = subprocess.Popen(["sleep", "60"])
print("ready", flush=True)
child.wait()
"""


def test_a_signal_reaches_the_script_alone(harness):
    """Without `group` a signal is the script's; what it has started goes on."""
    pid = harness.run(sys.executable, "-c", PARENT)
    harness.read(0, b"ready\n")
    harness.send(signal_(signal.SIGTERM))
    assert harness.hear_end() == 7
    assert not select.select([harness.fds[0]], [], [], HELD_S)[0], "the sleep has ended"
    os.killpg(pid, signal.SIGKILL)
    harness.send(RELEASE)


def test_a_signal_passes_a_shell(harness):
    """A shell passes nothing on: what it has started gets the signal as well, once."""
    harness.run("sh", "-c", "trap 'exit 7' TERM; sleep 60 & echo ready; wait")
    harness.read(0, b"ready\n")
    harness.send(signal_(signal.SIGTERM))
    assert harness.hear_end() == 7
    assert harness.read(0) == b"", "the sleep goes on"


def test_a_group_signal_reaches_what_the_script_started(harness):
    """With `group` the script's children get the signal too: the pipes end."""
    harness.run("sh", "-c", "sleep 60 & echo ready; wait")
    harness.read(0, b"ready\n")
    harness.send(signal_(signal.SIGKILL, group=True))
    assert harness.hear_end() == -signal.SIGKILL
    assert harness.read(0) == b""


def test_a_signal_after_the_end_is_harmless(harness):
    """A signal that comes too late changes nothing of the reported end."""
    harness.run("sh", "-c", "exit 4")
    assert harness.hear_end() == 4
    harness.send(signal_(signal.SIGKILL, group=True))
    harness.send(signal_(signal.SIGTERM))
    harness.send(RELEASE)
    assert harness.wait() == 4


@pytest.mark.parametrize(
    ("number", "group"),
    [(signal.SIGTERM, False), (signal.SIGINT, False), (signal.SIGKILL, True)],
    ids=str,
)
def test_a_signal_right_after_the_start_is_not_lost(harness, number: int, group: bool):
    """A signal that comes as soon as the script is said to have started ends it like a later one."""
    harness.run("sleep", "60", shim=SLOW_SHIM)
    harness.send(signal_(number, group=group))
    assert harness.hear_end() == -number
    harness.send(RELEASE)
    assert harness.wait() == -number


def test_a_signal_in_one_breath_with_the_start(harness):
    """A signal that arrives together with the start is kept until there is a script."""
    harness.begin("sleep", "60")
    messages = [{"type": "start", "env": {}}, signal_(signal.SIGTERM)]
    harness.conn.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    assert harness.hear()["type"] == "started"
    assert harness.hear_end() == -signal.SIGTERM


def test_the_end_of_the_harness_ends_the_script(harness):
    """When the harness is gone, the script and all that it started are killed, and the shim ends."""
    harness.run("sh", "-c", "trap '' TERM HUP; sleep 60 & echo ready; wait; wait")
    harness.read(0, b"ready\n")
    harness.hang_up()
    assert harness.read(0) == b""
    assert harness.wait() == -signal.SIGKILL


def test_the_end_of_the_harness_right_after_the_start(harness):
    """However early the harness goes, no script outlives it."""
    harness.run("sleep", "60", shim=SLOW_SHIM)
    harness.hang_up()
    assert harness.read(0) == b""
    assert harness.wait() == -signal.SIGKILL


def test_the_end_of_the_shim_ends_the_script(harness):
    """A shim that is killed takes its script with it."""
    harness.run(sys.executable, "-c", CAREFUL)
    harness.read(0, b"ready\n")
    harness.shim.kill()
    assert harness.read(0) == b""


def test_a_harness_that_ends_while_an_exit_is_held(harness):
    """A held exit is let go when the harness ends: the script's own status stands."""
    harness.run("sh", "-c", "exit 5")
    assert harness.hear_end() == 5
    harness.hang_up()
    assert harness.wait() == 5


def test_a_rank_that_is_not_wanted_any_more(harness, tmp_path, capfd):
    """A harness that hangs up before the start means: don't. The script never runs."""
    harness.begin("touch", str(tmp_path / "ran"))
    harness.hang_up()
    assert harness.wait() == 76
    assert not (tmp_path / "ran").exists()
    assert "muster-rank: the harness ended, or the job is being stopped" in capfd.readouterr().err


def test_a_harness_that_is_not_there(clean_env, tmp_path):
    """A socket on which nobody listens is an error that names it; the script never runs."""
    address = str(tmp_path / "nobody.sock")
    done = subprocess.run(
        [*SHIM, "--", "touch", str(tmp_path / "ran")],
        env=clean_env | {"MUSTER_SOCKET": address},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 76
    assert done.stderr.startswith(f"muster-rank: the harness does not answer at {address}: ")
    assert not (tmp_path / "ran").exists()


def test_the_script_has_default_signals_and_a_group_of_its_own(harness, no_signals):
    """What the shim ignores is not ignored in the script, and no signal is blocked there."""
    pid = harness.run("sh", "-c", "grep ^Sig /proc/self/status; read x < /proc/self/stat; echo $x")
    *signals, fields = harness.read(0).decode().splitlines()
    masks = dict(line.split(":\t") for line in signals)
    assert no_signals(masks["SigBlk"])
    assert no_signals(masks["SigIgn"])
    # /proc/self/stat: the process group is the third field after the name.
    assert int(fields.rpartition(")")[2].split()[2]) == pid


def test_the_shim_opens_no_descriptors_for_the_script(harness):
    """The script has its three streams and nothing else: not the socket, no end of a pipe."""
    harness.run(sys.executable, "-I", "-c", "import os; print(os.listdir('/proc/self/fd'))")
    # The fourth is the listing's own.
    assert harness.read(0) == b"['0', '1', '2', '3']\n"


def run_bare(*command: str, env: dict[str, str]) -> tuple[int, "subprocess.Popen[bytes]", bytes]:
    with subprocess.Popen(
        [*SHIM, "--", *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        out, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, process, out


@pytest.mark.parametrize("address", [None, ""], ids=["unset", "empty"])
def test_without_a_harness_the_script_takes_its_place(clean_env, address: str | None):
    """With no harness to speak to, nothing stays between the launcher and the script."""
    env = clean_env | ({} if address is None else {"MUSTER_SOCKET": address})
    code, process, out = run_bare("sh", "-c", "echo $$; exit 9", env=env)
    assert (code, int(out)) == (9, process.pid)


def test_without_a_harness_signals_are_as_usual(clean_env, no_signals):
    """A script in the shim's place finds signals as any program does, SIGPIPE not ignored."""
    _, _, out = run_bare("grep", "^SigIgn", "/proc/self/status", env=clean_env)
    assert no_signals(out.decode().removeprefix("SigIgn:\t"))


@pytest.mark.parametrize(("command", "status"), [("no-such-command", 127), ("/etc/passwd", 126)])
def test_without_a_harness_a_command_that_cannot_be_run(clean_env, command: str, status: int):
    """Also then a command that can't be run has a shell's status and a reason."""
    code, _, out = run_bare(command, env=clean_env)
    assert code == status
    assert out.startswith(f"muster: {command} can't be run: ".encode())


def test_no_command_is_a_mistake_of_use(clean_env):
    """Without a command the shim says how it is used."""
    done = subprocess.run([*SHIM], env=clean_env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "muster-rank -- COMMAND ARGS" in done.stderr


def test_it_is_a_command_of_its_own(clean_env):
    """`muster-rank` beside the interpreter is this shim."""
    command = Path(sys.executable).parent / "muster-rank"
    done = subprocess.run(
        [command, "--", "echo", "hi"], env=clean_env, capture_output=True, check=True
    )
    assert done.stdout == b"hi\n"


def test_the_harness_says_what_to_run(harness, tmp_path):
    """Under a launcher of another host the command is this host's, and so is the folder."""
    harness.begin()
    here = str(tmp_path)
    command = [sys.executable, "-c", "import os; print(os.getcwd(), os.environ.get('RANK'))"]
    harness.send({"type": "start", "env": {"RANK": "2"}, "argv": command, "cwd": here})
    assert harness.hear()["type"] == "started"
    assert harness.read(0, b"\n").decode() == f"{here} 2\n"
    assert harness.hear_end() == 0


def test_this_hosts_harness_wins(harness):
    """A launcher may have carried the address of its own host's harness along, and other private words."""
    show = "import os; print(sorted(n for n in os.environ if n.startswith('MUSTER_')))"
    env = {
        "MUSTER_SOCKET_HERE": harness.address,
        "MUSTER_SOCKET": "/elsewhere/s",
        "MUSTER_RSH": "/r",
    }
    harness.begin(sys.executable, "-c", show, env=env)
    harness.send({"type": "start", "env": {}})
    assert harness.hear()["type"] == "started"
    assert harness.read(0, b"\n") == b"[]\n"


def test_torch_distributeds_words(harness):
    """RANK and its company are there before the script's first line, also without a harness of MPI's."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    show = f"import os; print(*(os.environ.get(n) for n in {names!r}))"
    mpi = {f"OMPI_COMM_WORLD_{n}": v for n, v in (("RANK", "3"), ("LOCAL_RANK", "1"))}
    mpi |= {f"OMPI_COMM_WORLD_{n}": v for n, v in (("SIZE", "4"), ("LOCAL_SIZE", "2"))}
    harness.begin(sys.executable, "-c", show, env=mpi)
    harness.send({"type": "start", "env": {}})
    assert harness.hear()["type"] == "started"
    assert harness.read(0, b"\n") == b"3 1 4 2\n"
