"""The plan of one host, from the job, its code and the facts. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from muster.contract import argv
from muster.contract.exports import shared_names
from muster.model import Code, Job, Plan
from muster.plan import environment
from muster.plan.decide import Decided, decide
from muster.plan.facts import Facts
from muster.plan.notes import about_the_plan
from muster.plan.reserved import review
from muster.settings import Settings


def make_plan(
    job: Job, code: Code, settings: Settings, facts: Facts, inherited: Mapping[str, str]
) -> Plan:
    """What this host will run. `inherited` is the container's environment.

    Raises:
        PlanError: the launcher is unknown or can't be used here, or a
            reserved hyperparameter asks for what can't be done.
        LaunchError: the port on which the ranks meet can't be used.
    """
    remarks = review(job.reserved, inherited)
    decided = decide(job, code, settings, facts, inherited)
    launcher, start, topology = decided.launcher, decided.start, decided.start.topology
    arguments = argv.arguments(job.hyperparameters, settings.args_mode) + job.program_args
    script = decided.extras.wrapper + code.command + arguments
    told = launcher.from_one_host and not settings.exec_only
    env = _launcher_env(job, decided)
    direct = environment.no_proxy(job, inherited) if settings.extend_no_proxy else {}
    about = about_the_plan(job, settings, decided, env, direct=bool(direct))
    return Plan(
        launcher=decided.name,
        host=job.current_host,
        hosts=topology.hosts,
        node_rank=topology.node_rank,
        nproc=1 if launcher.one_a_host else topology.nproc,
        world_size=topology.world_size,
        master_addr=start.master_addr,
        master_port=facts.master_port,
        argv=launcher.command(start) + (() if told else script),
        cwd=code.directory,
        env=env | direct,
        rank_env=_rank_env(job, code, decided, arguments),
        rank_argv=script if told else (),
        names={start.addresses[host]: host for host in topology.hosts if host in start.addresses},
        kept=launcher.kept(inherited) if launcher.kept else None,
        shared=not launcher.one_a_host,
        hostfile=launcher.hostfile(start),
        notes=(*job.notes, *shared_names(job), *code.notes, *remarks, *about),
    )


def _launcher_env(job: Job, decided: Decided) -> dict[str, str]:
    start = decided.start
    defaults = environment.launcher_env(job, start.topology, start.inherited)
    return defaults | decided.launcher.env(start) | decided.extras.env


def _rank_env(job: Job, code: Code, decided: Decided, arguments: tuple[str, ...]) -> dict[str, str]:
    start, launcher = decided.start, decided.launcher
    meeting_point = (start.master_addr, start.facts.master_port)
    return (
        environment.rank_env(job, code, arguments, meeting_point, start.inherited)
        | launcher.rank_env(start)
        | {"MUSTER_IN_WORLD": str(int(not decided.outside))}
        | ({} if launcher.one_a_host else {"MUSTER_RANKS": decided.name})
        | decided.mesh.env
    )
