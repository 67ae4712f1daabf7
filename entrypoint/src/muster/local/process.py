"""Runs every host as a process of its own. Effects: processes, signals."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.contract.machine import look_at_machine, usable_cpus
from muster.errors import SIGNAL_BASE
from muster.launch.children import kill_group
from muster.launch.streams import LogPump
from muster.local.folders import LocalHost
from muster.local.options import Options
from muster.log import say
from muster.signals import STOPPING, Inbox

_STOP_S = 130.0
"""What the hosts get after a signal: a little more than SageMaker gives."""
_ABORT_S = 15.0
"""What the other hosts get after one has failed: their ranks' own grace time, and a little."""


@dataclass
class HostRun:
    """One host's harness while it runs and after."""

    host: LocalHost
    process: subprocess.Popen[bytes]
    seconds: float = 0.0
    stopped: bool = False
    """Whether we ended it because another one had failed."""

    @property
    def status(self) -> int:
        code = self.process.returncode
        return SIGNAL_BASE - code if code < 0 else int(code)


def run_hosts(
    options: Options, hosts: Sequence[LocalHost], env: Mapping[str, str]
) -> list[HostRun]:
    """Starts the harness of every host and waits until all have ended.

    A host that fails takes the others with it. SIGINT and SIGTERM are passed on once.
    """
    pump = LogPump()
    pump.start()
    inbox = Inbox()
    inbox.open()
    begun = time.monotonic()
    shared = dict(env) | {"MUSTER_MASTER_PORT": str(_free_port())}
    runs = [_start(options, hosts, i, shared, pump) for i in range(len(hosts))]
    kill_at: float | None = None
    while living := [run for run in runs if run.process.returncode is None]:
        timeout = None if kill_at is None else max(0.0, kill_at - time.monotonic())
        select.select([inbox], [], [], timeout)
        for number in inbox.read():
            if number in STOPPING and kill_at is None:
                # They end by themselves now, each in its own time: no host is to blame.
                kill_at = time.monotonic() + _STOP_S
                _signal(living, number)
        for run in living:
            if run.process.poll() is not None:
                run.seconds = time.monotonic() - begun
        failed = any(run.process.returncode for run in runs)
        if failed and kill_at is None:
            kill_at = time.monotonic() + _ABORT_S
            for run in living:
                run.stopped = run.process.returncode is None
            _signal([run for run in living if run.stopped], signal.SIGTERM)
        if kill_at is not None and time.monotonic() >= kill_at:
            for run in living:
                kill_group(run.process.pid)
            kill_at = None
    pump.drain(5.0)
    pump.close()
    return runs


def _start(
    options: Options, hosts: Sequence[LocalHost], index: int, env: Mapping[str, str], pump: LogPump
) -> HostRun:
    script = os.path.basename(options.script)
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "muster", "train", script, *options.arguments],
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
    return HostRun(hosts[index], process)


def _host_env(
    options: Options, hosts: Sequence[LocalHost], index: int, env: Mapping[str, str]
) -> dict[str, str]:
    return (
        # All hosts share this machine's cores.
        {"OMP_NUM_THREADS": str(max(1, usable_cpus() // (options.hosts * options.nproc)))}
        | dict(env)
        | _share_of_gpus(options, index, env)
        | {
            "SAGEMAKER_BASE_DIR": hosts[index].paths.base,
            "SAGEMAKER_SUBMIT_DIRECTORY": os.path.dirname(os.path.abspath(options.script)),
            "TRAINING_JOB_NAME": os.path.basename(os.path.dirname(hosts[index].paths.base)),
            "MUSTER_NPROC": str(options.nproc),
            **({"MUSTER_LAUNCHER": options.launcher} if options.launcher else {}),
            "MUSTER_ADDRESSES": ",".join(f"{host.name}={host.address}" for host in hosts),
        }
    )


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


def _signal(runs: Sequence[HostRun], number: int) -> None:
    for run in runs:
        if run.process.poll() is None:
            run.process.send_signal(number)


def _free_port() -> int:
    """A port that was free a moment ago, so that two jobs on this machine don't meet."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
