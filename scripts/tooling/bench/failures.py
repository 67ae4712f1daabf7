"""How long a job of two hosts lives on after something has happened to one of them."""

from __future__ import annotations

import time
from collections.abc import Callable

from tooling.bench.containers import FOLDER, Cluster, Images, Job, cluster
from tooling.machine import ScriptError, act, ask

WATCHED_S = 30.0
"""How long is waited for the end; the defaults of launchers are 10 to 30 minutes."""
START_S = 60.0


def rank_raises(job: Cluster) -> None:
    """Let the rank of the second host raise. Raises ScriptError. Effects: a file in its container."""
    act("docker", "exec", job.containers[1], "touch", f"{FOLDER}/go", timeout=30, quiet=True)


def host_is_killed(job: Cluster) -> None:
    """Kill the second host. Raises ScriptError. Effects: ends its container."""
    act("docker", "kill", job.containers[1], timeout=30, quiet=True)


def seconds_to_end(name: str, images: Images, fault: Callable[[Cluster], None]) -> float:
    """Return the seconds from a fault to the end of both hosts, at most WATCHED_S.

    Raises ScriptError when the job doesn't start. Effects: containers.
    """
    with cluster(name, images, Job("fail.py", hosts=2)) as job:
        job.start()
        for container in job.containers:
            wait_until_ready(container)
        began = time.monotonic()
        fault(job)
        for container in job.containers:
            left = began + WATCHED_S - time.monotonic()
            if ask("docker", "wait", container, timeout=max(0.1, left)) is None:
                return WATCHED_S
        return min(WATCHED_S, time.monotonic() - began)


def wait_until_ready(container: str) -> None:
    """Wait until the container's rank is in its work. Raises ScriptError when it doesn't come."""
    deadline = time.monotonic() + START_S
    while ask("docker", "exec", container, "test", "-e", f"{FOLDER}/ready") is None:
        if time.monotonic() > deadline:
            logs = ask("docker", "logs", "--tail", "15", container) or ""
            raise ScriptError(f"the rank did not start\n{logs}")
        time.sleep(0.2)
