"""The variables of the launcher and of the ranks. Pure."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from muster.contract.exports import sm_exports
from muster.model import Code, Job
from muster.plan.topology import Topology
from muster.settings import PRIVATE

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_AWS = ("169.254.170.2", "169.254.169.254", "localhost", "127.0.0.1")
"""The credentials of a container and of an instance; this host."""
_OF_MPI = ("OMPI_", "PMIX_", "PMI_", "PRTE_")
_CHOSEN = ("OMPI_MCA_", "PMIX_MCA_", "PRTE_MCA_", "OMPI_ALLOW_", "PRTE_ALLOW_")
"""Of these, what a user may set."""
_OF_A_RANK = (
    *(f"HOROVOD_{word}" for word in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK")),
    *(f"OMPI_MCA_{word}" for word in ("ess", "pmix", "initial_wdir", "orte_ess", "orte_launch")),
    *(f"OMPI_MCA_orte_{word}" for word in ("hnp_uri", "local_daemon_uri", "jobid", "app_num")),
)
"""What mpirun and horovodrun set for a rank beside them."""

_ON_NCCL_ERRORS = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
_ON_NCCL_ERRORS_OLD = "NCCL_ASYNC_ERROR_HANDLING"
"""Its older name, which a job may still set."""


def handed_on(env: Mapping[str, str]) -> dict[str, str]:
    """The container's environment as the job's programs get it.

    Without what is the harness's own, and without what an MPI job around it has left, as in a shell that mpirun
    has started: a rank would take itself for one of that job, and MPI would look for its daemons.
    """
    return {
        name: value
        for name, value in env.items()
        if name not in PRIVATE
        and not name.startswith(_OF_A_RANK)
        and (name.startswith(_CHOSEN) or not name.startswith(_OF_MPI))
    }


def launcher_env(job: Job, topology: Topology, inherited: Mapping[str, str]) -> dict[str, str]:
    """Defaults for the launcher and all below it. A variable the user has set stays as it is."""
    threads = max(1, job.machine.cpus // topology.nproc)
    defaults = {
        # Without it a script's lines come in blocks, or all at its end.
        "PYTHONUNBUFFERED": "1",
        # torchrun would set 1, which is slow on a host with few ranks and many cores.
        "OMP_NUM_THREADS": str(threads),
        # torchrun sets it in its ranks, other launchers don't: a lost peer would end the one's and hang the others'.
        _ON_NCCL_ERRORS: inherited.get(_ON_NCCL_ERRORS_OLD) or "1",
    }
    if len(job.hosts) > 1 and job.interface:
        # Left alone, Gloo publishes what the hostname resolves to, often 127.0.1.1.
        defaults |= {
            "GLOO_SOCKET_IFNAME": job.interface,
            "TP_SOCKET_IFNAME": job.interface,
            "NCCL_SOCKET_IFNAME": job.interface,
        }
    return {name: value for name, value in defaults.items() if name not in inherited}


def no_proxy(job: Job, inherited: Mapping[str, str]) -> dict[str, str]:
    """NO_PROXY with the hosts of the job and AWS's own addresses, where there is a proxy.

    A proxy knows neither algo-2 nor where a container's credentials come from (contract.md 2).
    Both spellings: programs read one, the other, or both.
    """
    if not any(value for name, value in inherited.items() if name.lower() in _PROXIES):
        return {}
    given = [inherited.get(name, "") for name in ("NO_PROXY", "no_proxy")]
    listed = [entry.strip() for text in given for entry in text.split(",") if entry.strip()]
    if "*" in listed:
        return {}
    whole = ",".join(dict.fromkeys([*listed, *job.hosts, *_AWS]))
    return {"NO_PROXY": whole, "no_proxy": whole}


def rank_env(
    job: Job,
    code: Code,
    arguments: Sequence[str],
    master: tuple[str, int],
    inherited: Mapping[str, str],
) -> dict[str, str]:
    """What every rank on this host finds, whatever it inherited from a launcher elsewhere."""
    # For an entry point in a sub-folder, whose own folder is sys.path[0].
    path = [code.directory, *filter(None, [inherited.get("PYTHONPATH")])]
    return {
        **sm_exports(job, code, arguments, master),
        "PYTHONPATH": os.pathsep.join(path),
        # SM_CHANNEL_TRAIN is no folder in Pipe mode. SM_CHANNEL_TRAIN_MODE could be a channel's own name.
        "MUSTER_CHANNEL_MODES": json.dumps(
            {channel.name: channel.input_mode for channel in job.channels}
        ),
        "MUSTER_CHECKPOINT_DIR": job.checkpoints,
    }
