"""The parent of one rank: `muster-rank -- python train.py …`.

Every rank, under every launcher, is started by these lines. They give the script
this host's variables and pipes of its own, tell the harness its exact end, and hold
their own exit until the harness says so: a launcher that saw the first rank end
would kill the others long before SageMaker's 120 seconds are over (docs/adr/0017).

Without a harness (MUSTER_EXEC=1) the script simply takes this process's place.
Standard library only, and little of it: this is paid once a rank.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NoReturn

from muster.launch import protocol

_PR_SET_PDEATHSIG = 1
_IGNORED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_NO_HARNESS = 76  # errors.STATUS_OF_KIND["launch"], not imported: every rank would pay for it
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126


_IDENTITY = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "HOROVOD_RANK"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "HOROVOD_LOCAL_RANK"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "HOROVOD_SIZE"),
    "LOCAL_WORLD_SIZE": ("OMPI_COMM_WORLD_LOCAL_SIZE", "HOROVOD_LOCAL_SIZE"),
}
"""What torch.distributed reads, and what other launchers than torchrun call it."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs the command in `argv` as a rank, and ends as it does.

    Under a launcher that runs on one host for all, the command is empty: the harness of this host
    says what its ranks run.
    """
    command = list(sys.argv[1:] if argv is None else argv)
    if command[:1] == ["--"]:
        del command[0]
    for name, value in identity(os.environ).items():
        os.environ[name] = value
    # What another host's harness has started here has that host's variables, too.
    address = os.environ.get(protocol.HERE_VARIABLE) or os.environ.get(protocol.SOCKET_VARIABLE)
    if not command and not address:
        sys.exit("muster-rank: no command given: muster-rank -- COMMAND ARGS")
    _run(command, address)


def identity(env: Mapping[str, str]) -> dict[str, str]:
    """Who this process is in torch.distributed's words, from the launcher's. Pure.

    mpirun and horovodrun say it in variables of their own, and theirs win: RANK may be left over
    from whatever started the launcher.
    """
    found = {}
    for name, others in _IDENTITY.items():
        values = [env[other] for other in others if env.get(other)]
        if values:
            found[name] = values[0]
    return found


def _run(command: list[str], address: str | None) -> NoReturn:
    if not address:
        _exec(command + _local_rank_argument(os.environ), os.environ)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    _die_as(_Shim(address).run(command))


class _Shim:
    def __init__(self, address: str) -> None:
        self._conn = socket.socket(socket.AF_UNIX)
        try:
            self._conn.connect(address)
        except OSError as error:
            _give_up(f"the harness does not answer at {address}: {error.strerror}")
        self._lines = protocol.Lines(self._conn)
        self._early: list[protocol.Message] = []
        """What the harness has said before the script was there."""

    def run(self, command: list[str]) -> int:
        """The rank's code: its exit code, or -n for signal n."""
        pipes = self._say_hello()
        start = self._wait_for_start()
        env = {k: v for k, v in os.environ.items() if k not in protocol.PRIVATE} | start["env"]
        command = (start.get("argv") or command) + _local_rank_argument(env)
        if start.get("cwd"):
            os.chdir(start["cwd"])
        wake = _wake_on_child()
        # Blocked, a signal for the script waits until the child can take it. Ignored, as by this
        # process, it would be lost between the fork and the child's own settings.
        signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)
        pid = os.fork()
        if pid == 0:
            _become(command, env, pipes)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _IGNORED)
        # Here as well as in the child: whichever comes first, a signal finds the group.
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        for fd in pipes:
            os.close(fd)
        self._tell({"type": "started", "pid": pid})
        code = self._watch(pid, wake)
        self._tell({"type": "ended", "code": code, "time": time.time()})
        self._wait_for_release()
        return code

    def _say_hello(self) -> tuple[int, int]:
        """Hands the read ends to the harness; returns the write ends.

        Pipes and not sockets: `echo > /dev/stdout` in a script opens the pipe again,
        which a socket refuses.
        """
        (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe()
        hello = {
            "type": "hello",
            "rank": _number("RANK"),
            "local_rank": _number("LOCAL_RANK"),
            "pid": os.getpid(),
        }
        protocol.send(self._conn, hello, (out_read, err_read))
        os.close(out_read)
        os.close(err_read)
        return out_write, err_write

    def _wait_for_start(self) -> protocol.Message:
        messages: list[protocol.Message] | None = []
        while not messages:
            messages = self._lines.receive()
            if messages is None:
                _give_up("the harness ended, or the job is being stopped")
        self._early = messages[1:]
        return messages[0]  # The first message is always `start`.

    def _watch(self, pid: int, wake: int) -> int:
        """Waits for the script's end and passes signals on. The code as subprocess has it."""
        for message in self._early:
            _signal(pid, message)
        connected = True
        while True:
            harness = self._conn.fileno()
            ready, _, _ = select.select([wake, harness] if connected else [wake], [], [])
            if harness in ready:
                messages = self._lines.receive()
                connected = messages is not None
                for message in messages if messages is not None else [_KILL]:
                    _signal(pid, message)
            if wake in ready:
                os.read(wake, 4096)
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    return os.waitstatus_to_exitcode(status)

    def _tell(self, message: protocol.Message) -> None:
        try:
            protocol.send(self._conn, message)
        except OSError:
            return  # The harness is gone; _watch and _wait_for_release see it too.

    def _wait_for_release(self) -> None:
        while (messages := self._lines.receive()) is not None:
            if any(message["type"] == "release" for message in messages):
                return


_KILL: protocol.Message = {"type": "signal", "number": int(signal.SIGKILL), "group": True}
"""What the end of the harness means for the script."""


def _signal(pid: int, message: protocol.Message) -> None:
    # The script is our child and not yet waited for, so its pid can't be another's.
    if message["type"] != "signal":
        return
    try:
        if message["group"]:
            os.killpg(pid, message["number"])
        else:
            from muster.launch.shells import (  # noqa: PLC0415  (most ranks never get one)
                signal_with_children,
            )

            signal_with_children(pid, message["number"])
    except ProcessLookupError:
        return  # It has just ended.


def _become(command: list[str], env: Mapping[str, str], pipes: tuple[int, int]) -> NoReturn:
    """In the forked child: turns into the script."""
    parent = os.getppid()
    signal.set_wakeup_fd(-1)
    for number in (*_IGNORED, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _IGNORED)
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(_NO_HARNESS)  # The shim died before the request above was in force.
    os.dup2(pipes[0], 1)
    os.dup2(pipes[1], 2)
    _exec(command, env)


def _exec(command: list[str], env: Mapping[str, str]) -> NoReturn:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and exec would hand that on.
    try:
        os.execvpe(command[0], command, dict(env))
    except OSError as error:
        os.write(2, f"muster: {command[0]} can't be run: {error.strerror}\n".encode())
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE)


def _wake_on_child() -> int:
    """A descriptor that is readable after a child has ended. pidfd needs Linux 5.3; this doesn't."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return read


def _local_rank_argument(env: Mapping[str, str]) -> list[str]:
    """What the older torch.distributed.launch gave each script, if the job asks for it."""
    option = env.get("MUSTER_LOCAL_RANK_ARG")
    return [f"{option}={env.get('LOCAL_RANK', '0')}"] if option else []


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else None


def _give_up(why: str) -> NoReturn:
    os.write(2, f"muster-rank: {why}\n".encode())
    os._exit(_NO_HARNESS)


def _die_as(code: int) -> NoReturn:
    """Ends as the script did, so that the launcher sees the same."""
    if code < 0:
        # No core file of ours on top of the script's.
        import resource  # noqa: PLC0415  (only after a crash)

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = -code
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        time.sleep(1)
        os._exit(128 + number)
    os._exit(code)


if __name__ == "__main__":
    main()
