"""The roll call as a stage: what this host tells, and what it learns. Effects: reads a file."""

from __future__ import annotations

import dataclasses
import json
import os
import sys

from muster import __version__
from muster.channel.agreement import HostFacts
from muster.channel.meeting import Meeting
from muster.contract.groups import make_groups
from muster.contract.machine import address_of
from muster.model import Job
from muster.plan.facts import Facts
from muster.plan.topology import make_topology
from muster.settings import Settings


def gather(meeting: Meeting, job: Job, settings: Settings, facts: Facts) -> Facts:
    """Waits until all hosts are here and agree. The facts with what they have agreed on.

    Raises:
        JobEnded, StopRequested: as Meeting.gather.
        PlanError: the job's own description makes no sense.
    """
    topology = make_topology(job, settings)
    # With MUSTER_EXEC=1 this host meets none of the others.
    here = (job.current_host,)
    image, torch = _image() if meeting.several else ("", "")
    welcome = meeting.gather(
        HostFacts(
            hosts=job.hosts if meeting.several else here,
            world=make_groups(job).world if meeting.several else here,
            group=job.group,
            nproc=topology.nproc,
            muster=__version__,
            image=image,
            torch=torch,
            interface=job.interface,
            address=address_of(job.interface) if job.interface else "",
            master_port=facts.master_port,
        )
    )
    if not meeting.several:
        return facts
    return dataclasses.replace(facts, master_port=welcome.master_port, nprocs=welcome.nprocs)


def _image(folder: str = sys.prefix) -> tuple[str, str]:
    """What names the image's content, and its torch; both empty outside an image of ours."""
    try:
        with open(os.path.join(folder, "manifest.json"), "rb") as file:
            raw = file.read()
        import hashlib  # noqa: PLC0415  (3 MB that a job of one host does not need)

        manifest = json.loads(raw)
        digest = hashlib.sha256(raw).hexdigest()[:12]
        return f"{manifest['image']}-{manifest['device']} {digest}", manifest["versions"]["torch"]
    except (OSError, ValueError, KeyError, TypeError):
        return "", ""
