"""The backend whose hosts are containers, by the docker command. Effects: processes, containers.

What is made for a job has a label of its own, and is removed by it at the end. Only a SIGKILL of
ours leaves something: `docker ps --all --filter label=muster.local` shows it. Files that a
container's root writes stay root's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from muster.launch.streams import LogPump
from muster.local import docker
from muster.local.backend import BackendError
from muster.local.folders import LocalHost
from muster.local.options import Options
from muster.log import say

_CALL_S = 60.0
"""How long the engine may take for one thing, on a busy machine."""
_END_S = 5.0
"""How long docker may still run after its container is gone."""
_WITHOUT = "Without --backend docker the hosts are processes, and no Docker is needed."


class ContainerRun:
    """One host's container. `docker wait` is the child that ends with it."""

    def __init__(self, host: LocalHost, env: Mapping[str, str], pump: LogPump) -> None:
        self.host = host
        self._env = env
        self._name = docker.container(host)
        # From the first line on, also if the container has ended already.
        self._logs = _open(env, "logs", "--follow", self._name)
        for stream, target in ((self._logs.stdout, 1), (self._logs.stderr, 2)):
            assert stream is not None
            pump.add(os.dup(stream.fileno()), target)
            stream.close()
        self._waiter = _open(env, "wait", self._name)

    def poll(self) -> int | None:
        if self._waiter.poll() is None:
            return None
        said, error = self._waiter.communicate()
        if said.strip().isdigit():
            return int(said)
        say(f"{self.host.name}: docker wait gave no status: {_first_line(error)}")
        return 1

    def stop(self, _number: int) -> None:
        """By SIGTERM in any case: containers end as by `docker stop`, as on SageMaker."""
        self._kill("SIGTERM")

    def kill(self) -> None:
        self._kill("SIGKILL")

    def _kill(self, signal: str) -> None:
        try:
            _docker(self._env, "kill", "--signal", signal, self._name)
        except BackendError as error:
            if self._waiter.poll() is None:  # Else it had ended by itself.
                say(f"{self.host.name}: {error.what}")

    def close(self) -> None:
        """Ends what still follows the container, which is gone."""
        for process in (self._logs, self._waiter):
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for stream in (self._waiter.stdout, self._waiter.stderr):
            assert stream is not None
            stream.close()


def check(options: Options, env: Mapping[str, str]) -> None:
    """Looks for the docker command, an engine and the image.

    Raises:
        BackendError: one of them is missing.
    """
    if _command(env) is None:
        what = "--backend docker: there is no docker command on PATH"
        raise BackendError(what, f"Install Docker. {_WITHOUT}")
    try:
        _docker(env, "version", "--format", "{{.Server.Version}}")
    except BackendError as error:
        what = f"--backend docker: no Docker engine answers ({error.what})"
        raise BackendError(
            what, f"Start it, and see that `docker info` works. {_WITHOUT}"
        ) from error
    try:
        _docker(env, "image", "inspect", "--format", "{{.Id}}", options.image)
    except BackendError as error:
        what = f"--backend docker: the image {options.image} is not on this machine"
        remedy = f"Build it (make images), or fetch it: docker pull {options.image}"
        raise BackendError(what, remedy) from error


@contextmanager
def start(
    options: Options, hosts: Sequence[LocalHost], env: Mapping[str, str], pump: LogPump
) -> Iterator[list[ContainerRun]]:
    """Starts a container a host on a network of their own; in the end nothing is left of both.

    Raises:
        BackendError: the engine refuses one.
    """
    runs: list[ContainerRun] = []
    try:
        _docker(env, *docker.create_network(hosts[0].job))
        for host in hosts:
            variables = docker.host_env(options, host, env)
            _docker(dict(env) | variables, *docker.run_host(options, host, variables))
            runs.append(ContainerRun(host, env, pump))
        yield runs
    finally:
        _remove(hosts[0].job, env)
        for run in runs:
            run.close()


def _remove(job: str, env: Mapping[str, str]) -> None:
    """Removes all that has the job's label. Never raises: it says what it could not do."""
    only = ("--quiet", "--filter", f"label={docker.label(job)}")
    for listing, removing in (
        (("ps", "--all", *only), ("rm", "--force", "--volumes")),
        (("network", "ls", *only), ("network", "rm")),
    ):
        try:
            if found := _docker(env, *listing).split():
                _docker(env, *removing, *found)
        except BackendError as error:
            say(f"left behind, with the label {docker.label(job)}: {error.what}")


def _docker(env: Mapping[str, str], *words: str) -> str:
    """What `docker WORDS` prints.

    Raises:
        BackendError: it fails, with its own words; or it can't be run, or does not end.
    """
    command = " ".join(("docker", *words[: 2 if words[0] in ("image", "network") else 1]))
    process = _open(env, *words)
    try:
        said, error = process.communicate(timeout=_CALL_S)
    except subprocess.TimeoutExpired:
        raise BackendError(f"{command} has not ended in {_CALL_S:.0f} s") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode:
        raise BackendError(f"{command}: {_first_line(error)}")
    return said.decode("utf-8", "replace")


def _open(env: Mapping[str, str], *words: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [_command(env) or "docker", *words],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C is for us: docker must live on to remove what it has made.
            start_new_session=True,
        )
    except OSError as error:
        raise BackendError(f"docker can't be run: {error.strerror}") from error


def _command(env: Mapping[str, str]) -> str | None:
    return shutil.which("docker", path=env.get("PATH"))


def _first_line(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[0].removeprefix("docker: ") if lines else "it said nothing"
