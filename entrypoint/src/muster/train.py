"""The pipeline: contract, code, requirements, plan, check, launch, report. The one place that names them all."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from muster import mask, report, signals
from muster.banner import banner
from muster.channel.gathering import gather
from muster.channel.meeting import JobEnded, Meeting
from muster.channel.opening import open_meeting
from muster.check import (
    Ranks,
    Result,
    Running,
    after_plan,
    begin,
    conclude,
    look_at_checkpoints,
    refuse_missing_gpu,
)
from muster.code import Scratch, add_config, locate
from muster.code.entry import find_python
from muster.contract import read_contract, read_place
from muster.errors import (
    SIGNAL_BASE,
    STATUS_OF_KIND,
    CodeError,
    ContractError,
    Kind,
    MusterError,
    StopRequested,
)
from muster.launch.run import launch, replace_by
from muster.log import say, sign_as
from muster.model import Cause, Job, Outcome, Paths, Plan
from muster.plan import Facts, handed_on, look_up_facts, make_plan, review
from muster.plan.topology import make_topology
from muster.requirements import installing
from muster.settings import TABLE, Settings, read_settings
from muster.signals import Inbox


def train(command_line: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs the job of this host to its end. The status is the container's.

    Args:
        command_line: a script and its arguments, or nothing.
        env: the container's environment.

    Effects: everything. Never raises.
    """
    run = _Run(env)
    outcome = run.outcome(command_line)
    report.finish(run.paths, outcome, run.job, run.plan, run.seconds, run.found)
    run.leave()
    if outcome.status and run.hold_s and not outcome.stop_signal:
        say(f"held for {run.hold_s:g} s (MUSTER_HOLD_S): `docker exec` in, or stop the container")
        signals.wait_for_stop(run.hold_s)
    run.scratch.remove()
    return outcome.status


@dataclass
class _Run:
    """How far the run has come: what a failure's report can tell depends on it."""

    env: Mapping[str, str]
    stage: Kind = "contract"
    job: Job | None = None
    plan: Plan | None = None
    meeting: Meeting | None = None
    checks: Running | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    hold_s: float = 0.0
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.scratch = Scratch(self.paths.code)

    @property
    def paths(self) -> Paths:
        setting = TABLE["base_dir"]
        return Paths(self.env.get(setting.variable) or setting.default)

    @property
    def found(self) -> tuple[Result, ...]:
        """What the checks have found so far: a run may end before they do."""
        return self.checks.so_far() if self.checks else ()

    def outcome(self, command_line: Sequence[str]) -> Outcome:
        """How the job ended, as this host tells it: with the cause and status of all hosts."""
        try:
            report.begin(self.paths)
            settings = read_settings(self.env)
            try:
                return self._stages(settings, command_line)
            except ContractError:
                self._meet_anyhow(settings)
                raise
        except JobEnded as end:
            return Outcome(end.cause.status, end.cause)
        except MusterError as error:
            return self._failed(error.what, error.kind, error.status, error.remedy)
        except StopRequested as stop:
            status = SIGNAL_BASE + stop.signum
            what = "stopped by a signal before the ranks began"
            if self.stage == "requirements":
                what += ", while packages were installed: a Python that outlives the job may hold a part of them"
            return self._failed(what, "signal", status, stop_signal=stop.signum)
        except Exception as error:  # noqa: BLE001  (a defect of ours must still end legibly)
            say(traceback.format_exc())
            what = f"muster itself failed: {type(error).__name__}: {error}"
            return self._failed(what, self.stage, STATUS_OF_KIND[self.stage])
        finally:
            self._enter(self.stage)

    def leave(self) -> None:
        """Leaves with the other hosts. What goes wrong here changes nothing any more."""
        try:
            if self.meeting:
                self.meeting.leave()
        except Exception:  # noqa: BLE001  (the reports are written)
            say(traceback.format_exc())

    def _stages(self, settings: Settings, command_line: Sequence[str]) -> Outcome:
        mask.switch(on=settings.mask)
        self.hold_s = settings.hold_s
        mask.learn(self.env.items())
        job = self.job = read_contract(settings, self.env, command_line)
        mask.learn((item.key, item.text) for item in job.hyperparameters)
        sign_as(job.current_host)
        meeting = self._meet(job, settings)
        self._enter("plan")
        # A misspelt key explains more than the entry point that it then lacks.
        review(job.reserved, self.env)
        env = handed_on(self.env)
        facts = look_up_facts(job, settings, env)
        self._enter("check")
        refuse_missing_gpu(job, settings, env)
        job = self.job = replace(job, notes=(*job.notes, *look_at_checkpoints(job)))
        self._enter("rollcall")
        facts = gather(meeting, job, settings, facts)
        nproc = make_topology(job, settings, facts.nprocs).nproc
        self.checks = begin(job, settings, env, nproc)
        self._enter("code")
        code = meeting.during(lambda: locate(job, settings, env, self.scratch))
        job = self.job = meeting.during(lambda: add_config(job, code, settings))
        mask.learn((item.key, item.text) for item in job.hyperparameters)
        self._enter("requirements")
        with installing(job, code, settings, env) as install:
            code = meeting.during(install)
        self._enter("check")
        conclude(self.checks, meeting, job.current_host)
        self._enter("plan")
        plan = self.plan = make_plan(job, code, settings, facts, env)
        if self.checks.collectives:
            self._enter("check")
            ranks = _ranks(job, plan, facts, settings, env)
            after_plan(plan, ranks, self.checks, meeting)
        self._enter("launch")
        say(banner(job, plan))
        if settings.exec_only:
            replace_by(plan, env)
        meeting.barrier(plan.launcher)
        return launch(plan, settings, env, meeting)

    def _meet(self, job: Job, settings: Settings) -> Meeting:
        """Opens the channel to the other hosts. With MUSTER_EXEC=1 nobody stays to hold it."""
        hosts = [job.current_host] if settings.exec_only else job.hosts
        identity = settings.job_arn or job.name
        self.meeting = open_meeting(identity, job.current_host, hosts, settings, Inbox())
        return self.meeting

    def _meet_anyhow(self, settings: Settings) -> None:
        """What this host can't read the others may: they must not wait for it."""
        place = read_place(settings)
        if place and not self.meeting:
            identity = settings.job_arn or place.job
            self.meeting = open_meeting(identity, place.host, place.hosts, settings, Inbox())

    def _enter(self, stage: Kind) -> None:
        now = time.monotonic()
        # Some stages are entered twice.
        self.seconds[self.stage] = self.seconds.get(self.stage, 0.0) + now - self.started
        self.stage, self.started = stage, now

    def _failed(
        self, what: str, kind: Kind, status: int, remedy: str = "", stop_signal: int = 0
    ) -> Outcome:
        host = self.job.current_host if self.job else "-"
        cause = Cause(what, kind, status, host, None, "", remedy, time.time())
        cause = replace(cause, asked=bool(stop_signal))
        outcome = Outcome(status, cause, stop_signal=stop_signal)
        try:
            return self.meeting.conclude(outcome) if self.meeting else outcome
        except Exception:  # noqa: BLE001  (this host's own reason is better than none)
            say(traceback.format_exc())
            return outcome


def _ranks(job: Job, plan: Plan, facts: Facts, settings: Settings, env: Mapping[str, str]) -> Ranks:
    """The ranks of the world, as the launcher will make it."""
    try:
        python = find_python(settings.python, env)
    except CodeError:
        python = ""  # A shell script may do without.
    sizes = facts.nprocs or (plan.world_size // len(plan.hosts),) * len(plan.hosts)
    return Ranks(
        python=python,
        sizes=tuple(sizes),
        index=plan.node_rank,
        gpus=bool(job.machine.gpus) and settings.image_device != "cpu",
        horovod=bool(facts.horovodrun),
    )
