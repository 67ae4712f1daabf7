"""The backend whose hosts are processes on 127.0.0.x. Effects: processes, network, files."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from muster import tied
from muster.contract.machine import look_at_machine
from muster.errors import SIGNAL_BASE
from muster.launch.children import kill_group
from muster.launch.streams import LogPump
from muster.local.backend import BackendError
from muster.local.environment import job_env
from muster.local.folders import LocalHost, names_command
from muster.local.options import Options
from muster.log import say
from muster.toolpath import with_own_venv


class ProcessRun:
    """One host's harness, a child of ours in a session of its own; the kernel kills it when we have gone."""

    def __init__(self, host: LocalHost, process: subprocess.Popen[bytes]) -> None:
        self.host = host
        self._process = process

    def poll(self) -> int | None:
        code = self._process.poll()
        return SIGNAL_BASE - code if code is not None and code < 0 else code

    def stop(self, _number: int) -> None:
        """By SIGTERM in any case, as SageMaker does, whatever a person has typed."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        kill_group(self._process.pid)


def check(options: Options, env: Mapping[str, str]) -> None:
    """Processes can be had wherever the harness runs; looks for a command that is to be run.

    Raises:
        BackendError: there is no such command on PATH.
    """
    if names_command(options) and not shutil.which(
        options.script, path=with_own_venv(env).get("PATH")
    ):
        raise BackendError(f"{options.script} is neither a file here nor a command on PATH")


@contextmanager
def start(
    options: Options, hosts: Sequence[LocalHost], env: Mapping[str, str], pump: LogPump
) -> Iterator[list[ProcessRun]]:
    """Starts the harness of every host. Effects: processes, output on `pump`."""
    ports = {name: str(_free_port()) for name in ("MUSTER_MASTER_PORT", "MUSTER_PORT")}
    shared = dict(env) | ports
    yield [_start(options, hosts, i, shared, pump) for i in range(len(hosts))]


def _start(
    options: Options, hosts: Sequence[LocalHost], index: int, env: Mapping[str, str], pump: LogPump
) -> ProcessRun:
    script = os.path.basename(options.script)
    harness = (sys.executable, "-I", "-m", "muster", "train", script, *options.arguments)
    process = subprocess.Popen(
        # By its path and without site: what starts the harness takes a moment only.
        tied.command(harness),
        env=_host_env(options, hosts, index, env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    for stream, target in ((process.stdout, 1), (process.stderr, 2)):
        assert stream is not None
        pump.add(os.dup(stream.fileno()), target)
        stream.close()
    return ProcessRun(hosts[index], process)


def _host_env(
    options: Options, hosts: Sequence[LocalHost], index: int, env: Mapping[str, str]
) -> dict[str, str]:
    host = hosts[index]
    return (
        job_env(options, host, env)
        | _share_of_gpus(options, index, env)
        | {
            "SAGEMAKER_BASE_DIR": host.paths.base,
            **_code(options),
            "MUSTER_ADDRESSES": ",".join(f"{each.name}={each.address}" for each in hosts),
        }
    )


def _code(options: Options) -> dict[str, str]:
    """Where the script is; a command is on PATH."""
    if names_command(options):
        return {}
    return {"SAGEMAKER_SUBMIT_DIRECTORY": os.path.dirname(os.path.abspath(options.script))}


def _share_of_gpus(options: Options, index: int, env: Mapping[str, str]) -> dict[str, str]:
    """This host's part of the GPUs; none where they are fewer than the ranks.

    NCCL refuses two ranks on one GPU, so such a job is better run on the CPU.
    """
    gpus = look_at_machine(env).gpus
    if gpus == 0 or "CUDA_VISIBLE_DEVICES" in env:
        return {}
    if gpus < options.hosts * options.nproc:
        if index == 0:
            say(f"{gpus} GPU(s) for {options.hosts * options.nproc} ranks: running on the CPU")
        return {"CUDA_VISIBLE_DEVICES": ""}
    first = index * options.nproc
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(first + i) for i in range(options.nproc))}


def _free_port() -> int:
    """A port that was free a moment ago, so that two jobs on this machine don't meet."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
