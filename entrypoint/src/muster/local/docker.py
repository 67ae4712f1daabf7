"""The words of the docker command for a job's network and hosts. Pure."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping

from muster.local.environment import job_env, portable
from muster.local.folders import LocalHost, channels, checkpoints, names_command
from muster.local.options import Options
from muster.model import Paths

IN_CONTAINER = Paths("/opt/ml")


def label(job: str) -> str:
    """What all containers and networks of one job have, and nothing else has."""
    return f"muster.local={job}"


def network(job: str) -> str:
    """The name of the job's network."""
    return f"muster-{job}"


def container(host: LocalHost) -> str:
    """The name of the host's container, for people. It is not the hostname."""
    return f"muster-{host.job}-{host.name}"


def create_network(job: str) -> list[str]:
    """Makes a network whose hosts reach each other and nothing else."""
    return ["network", "create", "--internal", "--label", label(job), network(job)]


def run_host(options: Options, host: LocalHost, variables: Mapping[str, str]) -> list[str]:
    """Starts a host as SageMaker would: a random hostname, algo-1 known to the network only.

    Variables go by name, so docker must be run with them: their values, which may be secrets,
    are in no argument that other users of this machine can see.
    """
    words = ["run", "--detach", "--pull", "never"]
    words += ["--name", container(host), "--label", label(host.job)]
    words += ["--network", network(host.job), "--network-alias", host.name]
    words += ["--shm-size", options.shm_size]
    for source, target in _mounts(options, host):
        words += ["--mount", _fields("type=bind", f"source={source}", f"target={target}")]
    for name in sorted(variables):
        words += ["--env", name]
    return [*words, options.image, "train", os.path.basename(options.script), *options.arguments]


def host_env(options: Options, host: LocalHost, env: Mapping[str, str]) -> dict[str, str]:
    """The variables of a host's container."""
    # As the channel `code`, but before a file of that name in the image's working folder.
    code = {"SAGEMAKER_SUBMIT_DIRECTORY": f"{IN_CONTAINER.data}/code"}
    return job_env(options, host, portable(env)) | {
        **({} if names_command(options) else code),
        # The code folder is the user's own, and the container's root would leave files there.
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _mounts(options: Options, host: LocalHost) -> list[tuple[str, str]]:
    """SageMaker's volumes. The model folder is one for all hosts, as in its own local mode."""
    return [
        (host.paths.input, IN_CONTAINER.input),
        (host.paths.output, IN_CONTAINER.output),
        (host.paths.output_data, IN_CONTAINER.output_data),
        (os.path.join(os.path.dirname(host.paths.base), "model"), IN_CONTAINER.model),
        *([(kept, IN_CONTAINER.checkpoints)] if (kept := checkpoints(options, host.name)) else []),
        *(
            (os.path.abspath(source), f"{IN_CONTAINER.data}/{name}")
            for name, source in channels(options)
        ),
    ]


def _fields(*fields: str) -> str:
    """A value of --mount: docker reads it as a line of CSV, and a path may have commas."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()
