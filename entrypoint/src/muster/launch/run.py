"""Runs a plan on this host. Effects: processes, signals, a private folder in TMPDIR."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from typing import NoReturn

from muster import log
from muster.channel.meeting import Meeting
from muster.errors import LaunchError
from muster.launch import children, evidence, explain
from muster.launch.agreement import Agreement
from muster.launch.alarm import Alarm, set_alarm
from muster.launch.outcome import LauncherEnd, decide
from muster.launch.policy import LogPolicy, make_policy
from muster.launch.ranks import Ranks
from muster.launch.remote import RemoteStart
from muster.launch.spill import spill
from muster.launch.streams import LogPump
from muster.launch.supervisor import Limits, Supervisor
from muster.launch.surroundings import Surroundings
from muster.model import Outcome, Paths, Plan, file_part
from muster.settings import Settings
from muster.signals import before_exec

_LONGEST_FOLDER = 90
"""A unix socket's whole path has at most 107 bytes."""


def launch(
    plan: Plan, settings: Settings, inherited: Mapping[str, str], meeting: Meeting
) -> Outcome:
    """Starts the plan's launcher, watches its ranks, and returns when the job is over.

    The outcome is the job's: its cause and status are the same on all hosts of `meeting`.

    Raises:
        LaunchError: the launcher can't be started, or there is no place for temporary files.
    """
    folder = _private_folder()
    try:
        return _launch(plan, settings, inherited, meeting, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _private_folder() -> str:
    """A folder that only this user can enter, for the ranks' socket and error records."""
    for parent in (None, "/tmp", "/dev/shm"):
        try:
            folder = tempfile.mkdtemp(prefix="muster-", dir=parent)
        except OSError:
            continue
        if len(folder) <= _LONGEST_FOLDER:
            return folder
        os.rmdir(folder)
    what = "no temporary folder can be made: TMPDIR, /tmp and /dev/shm are read-only or full"
    raise LaunchError(what, "Mount a writable /tmp: docker run --tmpfs /tmp.")


def _launch(
    plan: Plan, settings: Settings, inherited: Mapping[str, str], meeting: Meeting, folder: str
) -> Outcome:
    record = Paths(settings.base_dir).record
    policy = make_policy(
        settings.log, plan.host, settings.log_dir, os.path.join(record, file_part(plan.host))
    )
    pump = LogPump(os.path.join(record, f"overflow-{file_part(plan.host)}"), log.label())
    pump.start()
    log.send_to(pump.interject)
    alarm = set_alarm(settings, inherited)
    try:
        return _supervised(plan, settings, inherited, pump, policy, (meeting, folder, alarm))
    finally:
        log.send_to(None)
        alarm.close()
        pump.close()


def _supervised(
    plan: Plan,
    settings: Settings,
    inherited: Mapping[str, str],
    pump: LogPump,
    policy: LogPolicy,
    around: tuple[Meeting, str, Alarm],
) -> Outcome:
    meeting, folder, alarm = around
    surroundings = Surroundings(plan, inherited, folder)
    ranks = Ranks(folder, surroundings.orders(), pump, policy)
    before = evidence.look()
    meeting.inbox.open()
    children.adopt_orphans()
    remote = RemoteStart(meeting.peer.tell, folder, surroundings.remote(ranks.address))
    if plan.remote:
        remote.open(plan.names)
    launcher = children.start_launcher(
        plan, surroundings.launcher(ranks.address, remote.address), pump
    )
    agreement = Agreement(meeting.peer.tell, folder)
    limits = Limits(
        expected=plan.nproc,
        shared_world=plan.shared and len(plan.hosts) > 1,
        stop_grace=settings.stop_grace_s,
        abort_grace=settings.abort_grace_s,
        frozen=settings.silence_s,
    )
    supervisor = Supervisor((launcher, ranks, remote, agreement, alarm), meeting, pump, limits)

    def account() -> Outcome:
        outcome = decide(
            plan.host,
            ranks.ends(),
            LauncherEnd(
                plan.launcher,
                launcher.code,
                launcher.tail,
                left_ranks=supervisor.launcher_left,
                time=supervisor.launcher_ended_at,
            ),
            expected=plan.nproc,
            stop_signal=supervisor.stop_signal,
            evidence=dataclasses.replace(evidence.look().since(before), xids=tuple(alarm.xids)),
        )
        return _unfrozen(plan.host, outcome, supervisor.lookout.frozen)

    outcome = supervisor.run(account)
    remote.close()
    agreement.close()
    pump.drain(1.0)
    _show_hidden(ranks, policy, pump)
    return dataclasses.replace(outcome, xids=alarm.record(plan.host))


def _unfrozen(host: str, outcome: Outcome, frozen: tuple[int, float] | None) -> Outcome:
    """`outcome`, where a stopped rank is the reason with that for its cause."""
    if frozen is None or (outcome.cause and not outcome.cause.asked):
        return outcome
    rank, since = frozen
    cause = explain.frozen(host, rank, time.monotonic() - since, time.time())
    return dataclasses.replace(outcome, status=cause.status, cause=cause)


def _show_hidden(ranks: Ranks, policy: LogPolicy, pump: LogPump) -> None:
    """Of a rank that failed by itself and was not shown: its last lines."""
    for rank in ranks.all:
        if rank.code and not rank.signalled and not policy.shows(rank.rank):
            for source in (rank.stdout, rank.stderr):
                lines = [policy.label(rank.rank) + line for line in source.tail.splitlines()]
                pump.interject(b"".join(line + b"\n" for line in lines))


def replace_by(plan: Plan, inherited: Mapping[str, str]) -> NoReturn:
    """Becomes the launcher (MUSTER_EXEC=1): nothing of the harness stays in between.

    Raises:
        LaunchError: the launcher can't be started.
    """
    os.chdir(plan.cwd)
    before_exec()
    try:
        rank_env = spill(plan.rank_env, _private_folder)  # Nobody will be left to remove it.
        os.execvpe(plan.argv[0], plan.argv, {**inherited, **plan.env, **rank_env})
    except OSError as error:
        raise LaunchError(f"{plan.argv[0]} can't be started: {error.strerror}") from error
