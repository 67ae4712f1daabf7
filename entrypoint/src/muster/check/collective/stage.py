"""The ranks of all hosts add something up before the script does: each host alone, all together, and in pairs.

Every host goes through the same consultations, whatever it wants for itself: none may wait for another. The leader
judges what all have seen, logs it, and says whose failure ends the job.

Effects: those of worlds.py; the leader logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from muster.check.collective import judging, rows
from muster.check.collective.book import make_book, read_book, told_of
from muster.check.collective.measures import Measures
from muster.check.collective.pairs import (
    ON_CPUS,
    ON_GPUS,
    ROUNDS,
    Limits,
    Pair,
    Trial,
    Trials,
    next_round,
    verdicts,
    worst_first,
)
from muster.check.collective.worlds import IDLE, Ranks, Told, Worlds
from muster.check.exchange import Consulting
from muster.check.finding import Finding, Result
from muster.check.running import EVIDENCE_LIMIT, REMEDY_LIMIT, Running, weighed
from muster.check.table import lines
from muster.errors import CheckError
from muster.log import say
from muster.model import Plan

Judge = Callable[[Mapping[str, Told]], Mapping[str, Mapping[str, Finding]]]
"""From what each host tells: by check, what it says of each host."""
_STRAGGLERS = Limits(1.1, 1.5)
"""For products of matrices on GPUs."""


def after_plan(
    plan: Plan,
    ranks: Ranks,
    running: Running,
    meeting: Consulting,
    tell: Callable[[str], None] = say,
) -> None:
    """Looks at what the worlds show of this host, once all other checks are well.

    Args:
        plan: this host's; nothing of it is changed.
        ranks: of the job, and this host's part.
        running: the checks so far; the hosts have agreed on how much all of them look at. It gets the results.
        meeting: of all hosts.
        tell: takes the leader's lines.

    Raises:
        CheckError: this host is the first that a FAIL is about.
    """
    if not running.collectives:
        return
    worlds = Worlds(plan, ranks, running.here.env)
    try:
        _Steps((plan, ranks, worlds), running, meeting, tell).run()
    finally:
        worlds.end()  # Where another host's failure has ended the job meanwhile.


class _Steps:
    """One host's way through the consultations. Use once."""

    def __init__(
        self,
        here: tuple[Plan, Ranks, Worlds],
        running: Running,
        meeting: Consulting,
        tell: Callable[[str], None],
    ) -> None:
        plan, ranks, worlds = here
        self._tell = tell
        self._host = plan.host
        self._ranks = ranks
        self._severities = running.here.settings.severities
        self._full = running.collectives == "full"
        self._named = bool(running.here.settings.baseline)
        self._meeting = meeting
        self._results = running.later
        self._first: dict[str, str] = {}
        """By check, the first host that it has failed for; empty for none."""
        self._ran: set[str] = set()
        """Checks that ranks have run for, somewhere."""
        mine = told_of(plan, ranks, running.here, full=self._full)
        self._book = read_book(meeting.consult("collective", mine, make_book))
        self._measures = Measures(plan, ranks, running.here, self._book, worlds, full=self._full)

    def run(self) -> None:
        """Raises CheckError: this host is the first that a FAIL is about."""
        kinds, measures = self._book.kinds, self._measures
        stragglers, limits = (self._limits(of) for of in (_STRAGGLERS, ON_GPUS))
        self._step(
            rows.BURN,
            measures.burn,
            lambda told: {rows.BURN: judging.of_burns(told, stragglers, kinds)},
        )
        if self._ends(rows.BURN):
            return
        self._step(
            rows.HOST,
            measures.alone,
            lambda told: {rows.HOST: judging.of_hosts(told, limits, kinds)},
        )
        if self._ends(rows.HOST):
            return
        self._step(rows.JOB, measures.together, self._of_job)
        if self._ends(rows.NETWORK):  # What NCCL says of itself needs no search.
            return
        failed = bool(self._first.get(rows.JOB))
        if not failed:
            self._step(rows.HOROVOD, measures.by_horovod, self._of_horovod)
        if failed or (self._full and rows.JOB in self._ran):
            self._isolate(suspicious=failed)
        self._ends(rows.PAIRS, rows.JOB, rows.HOROVOD, rows.LINKS, rows.EFA)

    def _limits(self, on_gpus: Limits) -> Limits:
        """What is slow here. At the level fast it is never more than a warning: one short look is not a proof."""
        if not self._book.gpus:
            return ON_CPUS
        return on_gpus if self._full else replace(on_gpus, fail=float("inf"))

    def _step(self, name: str, measure: Callable[[], Told], judge: Judge) -> None:
        """Measures here, and takes what the leader makes of all hosts' measures."""
        if why := self._book.refused.get(name):
            self._results[name] = Result(name, "SKIP", why, "", 0.0)
            return
        mine = self._measured(measure)
        answer = self._meeting.consult(
            name, mine.pack(), lambda data: self._judged(_unpacked(data), judge)
        )
        self._take(answer)

    def _measured(self, measure: Callable[[], Told]) -> Told:
        return self._meeting.during(measure) if self._host in self._book.hosts else IDLE

    def _judged(
        self, told: Mapping[str, Told], judge: Judge, order: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The leader's: weighs, logs, and finds who is the first that a check has failed for.

        Args:
            told: what each host has measured.
            judge: what to make of it.
            order: the hosts, who is to blame first; else it goes by what they have told.
        """
        answer = {}
        for name, findings in judge(told).items():
            found = {
                host: self._result(name, told.get(host, IDLE), each)
                for host, each in findings.items()
            }
            # A line shows the worst of its hosts: those that only listen would hide what the others have seen.
            seen = {host: (one,) for host, one in found.items() if host in self._book.hosts}
            if any(one.status != "SKIP" for (one,) in seen.values()):
                self._tell("\n".join(lines(seen, whole=True)[1:]))
            failed = [host for host, one in found.items() if one.status == "FAIL"]
            if order:
                failed.sort(key=order.index)
            else:
                # A rank that has waited in vain says less than one that has failed, and the first one knows why.
                failed.sort(key=lambda host: (told[host].kind == "late", told[host].seconds, host))
            answer[name] = {
                "results": {host: one.pack() for host, one in found.items()},
                "first": failed[0] if failed else "",
                "ran": any(one.kind in ("ok", "failed", "late") for one in told.values()),
            }
        return answer

    def _result(self, name: str, told: Told, found: Finding) -> Result:
        evidence, remedy = found.evidence[:EVIDENCE_LIMIT], found.remedy[:REMEDY_LIMIT]
        severities = self._severities
        if name == rows.PAIRS:
            # They only tell which host it is.
            severities = {name: severities.get(rows.JOB, ""), **severities}
        return weighed(Result(name, found.status, evidence, remedy, told.seconds), severities)

    def _take(self, answer: Mapping[str, Any]) -> None:
        for name, each in answer.items():
            if self._host in each["results"]:
                self._results[name] = Result.unpack(each["results"][self._host])
            self._first[name] = each["first"]
            if each["ran"]:
                self._ran.add(name)

    def _ends(self, *names: str) -> bool:
        """Whether one of these checks has ended the job: the channel tells the other hosts.

        Raises:
            CheckError: this host is the one.
        """
        name = next((name for name in names if self._first.get(name)), "")
        if not name or self._first[name] != self._host:
            return bool(name)
        result = self._results[name]
        raise CheckError(
            f"check {name} on {self._host}: {result.evidence}",
            f"{result.remedy}\nMUSTER_CHECKS={name}=warn goes on all the same.",
        )

    def _isolate(self, *, suspicious: bool) -> None:
        """Tries pairs of hosts until it is known which of them it is, or nobody can tell."""
        if why := self._book.refused.get(rows.PAIRS):
            self._results[rows.PAIRS] = Result(rows.PAIRS, "SKIP", why, "", 0.0)
            return
        done: list[Trial] = []
        pairs = next_round(self._trials(done, suspicious=suspicious))
        for number in range(1, ROUNDS + 1):
            mine = self._measured(partial(self._measures.in_pair, pairs))
            judge = partial(
                self._next, pairs=pairs, done=done, suspicious=suspicious, last=number == ROUNDS
            )
            answer = self._meeting.consult(f"{rows.PAIRS} {number}", mine.pack(), judge)
            pairs = [(first, second) for first, second in answer["pairs"]]
            self._take(answer["checks"])
            if not pairs:
                return

    def _next(
        self,
        data: Mapping[str, Any],
        *,
        pairs: Sequence[Pair],
        done: list[Trial],
        suspicious: bool,
        last: bool,
    ) -> dict[str, Any]:
        """The leader's: the next round, or what all of them have shown."""
        told = _unpacked(data)
        done += [judging.of_pair(pair, told) for pair in pairs]
        trials = self._trials(done, suspicious=suspicious)
        following = [] if last else next_round(trials)
        if following:
            return {"pairs": following, "checks": {}}
        seen = self._judged(told, lambda _: {rows.PAIRS: verdicts(trials)}, worst_first(trials))
        if suspicious and not any(trials.cleared(host) for host in trials.hosts):
            # They name nobody; the whole job's ranks have.
            seen[rows.PAIRS]["first"] = ""
        return {"pairs": [], "checks": seen}

    def _trials(self, done: Sequence[Trial], *, suspicious: bool) -> Trials:
        """Hosts of several kinds take their own times: there only those that fail are bad."""
        alike = len(set(self._book.kinds.values())) == 1
        limits = self._limits(ON_GPUS) if alike else Limits(float("inf"), float("inf"))
        return Trials(self._book.hosts, tuple(done), limits, suspicious=suspicious)

    def _of_job(self, told: Mapping[str, Told]) -> Mapping[str, Mapping[str, Finding]]:
        findings = {
            rows.JOB: judging.of_job(
                told, sum(self._ranks.sizes), table=self._book.whole, named=self._named
            )
        }
        return findings | judging.of_beside(told, self._book.refused)

    def _of_horovod(self, told: Mapping[str, Told]) -> Mapping[str, Mapping[str, Finding]]:
        return {rows.HOROVOD: judging.of_job(told, sum(self._ranks.sizes))}


def _unpacked(data: Mapping[str, Any]) -> dict[str, Told]:
    return {host: Told.unpack(one) for host, one in data.items()}
