"""What a run says of itself before it starts. Pure."""

from __future__ import annotations

import shlex

from muster import __version__
from muster.mask import mask_argv, mask_text
from muster.model import Job, Plan

_NAMED = 8
"""Hosts that are named; a job may have 500."""
_LINES = 15
_COMMAND = 800
"""Characters of the command that a log gets; a job may have 100 long hyperparameters."""


def banner(job: Job, plan: Plan, *, full: bool = False) -> str:
    """A few lines: the job, the hosts, the launcher, the command, what was defaulted.

    Secrets are hidden. In a log it has at most 15 lines; `full` is for `muster plan`.
    """
    hosts = ", ".join(plan.hosts[:_NAMED]) + (" …" if len(plan.hosts) > _NAMED else "")
    command = _shown(plan.argv, full=full)
    place = f"{plan.node_rank + 1} of {len(plan.hosts)}: {hosts}"
    lines = [
        f"muster {__version__}: job {job.name}, host {plan.host} ({place})",
        _world(plan),
        f"runs: {command}" if command else f"runs: what {plan.launcher} on {plan.hosts[0]} starts",
        *([f"each rank: {_shown(plan.rank_argv, full=full)}"] if plan.rank_argv else []),
        *_channels(job),
        *map(mask_text, plan.notes),
    ]
    if len(lines) > _LINES and not full:
        rest = len(lines) - _LINES + 1
        lines[_LINES - 1 :] = [f"… and {rest} lines more (muster plan)"]
    return "\n".join(lines)


def _world(plan: Plan) -> str:
    meeting = f"{plan.master_addr}:{plan.master_port}"
    if plan.launcher == "cluster":
        # What runs here is no rank: it starts them, if anybody does.
        return f"one script a host; for the ranks that it starts: world size {plan.world_size}, {meeting}"
    return f"world size {plan.world_size}, ranks meet at {meeting}"


def _shown(argv: tuple[str, ...], *, full: bool) -> str:
    command = shlex.join(mask_argv(argv))  # To be read and pasted; never run from here.
    if len(command) > _COMMAND and not full:
        return f"{command[:_COMMAND]} … (all of it: muster plan)"
    return command


def _channels(job: Job) -> list[str]:
    if not job.channels:
        return []
    named = [f"{channel.name} ({channel.input_mode})" for channel in job.channels[:_NAMED]]
    return ["channels: " + ", ".join(named) + (" …" if len(job.channels) > _NAMED else "")]
