"""What ranks find where they run, told by the ranks themselves."""

from __future__ import annotations

import json
import re
from typing import Any

from cluster import Cluster, Job

NAMES = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("SM_CURRENT_HOST", "SM_CURRENT_HOST_RANK", "SM_NUM_CPUS", "SM_CHANNELS"),
    *("MY_SECRET_KEY", "NCCL_DEBUG", "PATH"),
)
FEW_CORES = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMP_NUM_THREADS": "1"}
"""For MPI, which waits in circles, where several hosts share the cores."""

TELL = f"""
    import json, os
    facts = {{name: os.environ.get(name) for name in {NAMES}}} | {{"cwd": os.getcwd()}}
    # One write: ranks may share a pipe.
    os.write(1, ("told " + json.dumps(facts) + "\\\\n").encode())
"""
"""The lines of a script that tell it."""

WAIT = """
    import time
    from pathlib import Path
    folder = Path(os.environ["SM_MODEL_DIR"])
    (folder / "started").touch()
    while not (folder / "go").exists():
        time.sleep(0.05)
"""
"""The lines of a script that go on when the test says so."""


def told(cluster: Cluster) -> list[dict[str, Any]]:
    """What each rank found, in the ranks' order; without ranks in the hosts' order."""
    lines = "\n".join(host.output for host in cluster.hosts)
    found = [json.loads(line) for line in re.findall(r"told (\{.*\})", lines)]
    return sorted(found, key=lambda facts: int(facts["RANK"] or -1))


def make_job(image: str, tmp_path, code, script: str, hosts: int = 2, **values) -> Job:
    """A job of two ranks a host that runs the script's text in the image."""
    environment = {"MUSTER_NPROC": "2"} | values.pop("environment", {})
    return Job(
        *(tmp_path, code(script), "train.py", hosts),
        image=image,
        environment=environment,
        **values,
    )
