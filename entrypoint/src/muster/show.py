"""`muster plan`: what would run, for any host of the job. Effects: reads, prints."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence

from muster import mask
from muster.banner import banner
from muster.code import Scratch, add_config, locate
from muster.contract import read_contract
from muster.errors import ContractError, MusterError
from muster.model import Job, Plan, to_json
from muster.plan import handed_on, look_up_facts, make_plan, review
from muster.requirements import announced
from muster.settings import read_settings


def show_plan(words: Sequence[str], env: Mapping[str, str]) -> int:
    """Prints the plan of one host. The status is the one with which the job would fail."""
    parser = argparse.ArgumentParser(
        prog="muster plan", description="What would run, without running it."
    )
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    parser.add_argument("--host", help="of this host of the job; default: the current one")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="as after `muster train`")
    options = parser.parse_args(words)
    scratch = Scratch(None)  # Whatever is fetched goes again: nothing is run.
    try:
        settings = read_settings(env)
        mask.switch(on=settings.mask)
        job = _as_host(read_contract(settings, env, options.command), options.host)
        mask.learn((item.key, item.text) for item in job.hyperparameters)
        review(job.reserved, env)
        env = handed_on(env)
        code = announced(locate(job, settings, env, scratch), settings, env)
        job = add_config(job, code, settings)
        mask.learn((item.key, item.text) for item in job.hyperparameters)
        plan = make_plan(job, code, settings, look_up_facts(job, settings, env, claim=False), env)
    except MusterError as error:
        lines = filter(None, [f"muster: {error.what}", error.remedy])
        print(mask.mask_text("\n".join(lines)), file=sys.stderr)
        return error.status
    finally:
        scratch.remove()
    if options.json:
        # A plan may be pasted into an issue: it shows no secrets and no environment but ours.
        print(to_json(_without_secrets(plan)))
    else:
        print(banner(job, plan, full=True))
    return 0


def _without_secrets(plan: Plan) -> Plan:
    notes = tuple(mask.mask_text(note) for note in plan.notes)
    return dataclasses.replace(plan, argv=mask.mask_argv(plan.argv), notes=notes, rank_env={})


def _as_host(job: Job, host: str | None) -> Job:
    if host is None:
        return job
    if host not in job.hosts:
        raise ContractError(f"--host {host} is not a host of the job ({', '.join(job.hosts)})")
    return dataclasses.replace(job, current_host=host)
