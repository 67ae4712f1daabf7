"""The ranks of all hosts add something up before the script does: each host alone, all together, and in pairs.

Every host goes through the same consultations, whatever it wants for itself: none may wait for another. The leader
judges what all have seen, logs it, and says whose failure ends the job.

Effects: those of worlds.py; the leader logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster.check.collective import judging, rows
from muster.check.collective.book import Book, make_book, told_of
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
)
from muster.check.collective.worlds import IDLE, Ranks, Told, Worlds
from muster.check.exchange import Consulting
from muster.check.finding import Finding, Result
from muster.check.running import Running, weighed
from muster.check.table import lines
from muster.errors import CheckError
from muster.log import say
from muster.model import Plan

Judge = Callable[[Mapping[str, Told]], Mapping[str, Mapping[str, Finding]]]
"""From what each host tells: by check, what it says of each host."""
_STRAGGLERS = {True: Limits(1.1, 1.5), False: ON_CPUS}
"""For products of matrices, by whether GPUs multiply."""


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
        self._meeting = meeting
        self._limits = ON_GPUS if ranks.gpus else ON_CPUS
        self._results = running.later
        self._first: dict[str, str] = {}
        """By check, the first host that it has failed for; empty for none."""
        self._bad: set[str] = set()
        """Checks that have found something somewhere."""
        mine = told_of(plan, ranks, running.here.settings, full=self._full)
        self._book = Book(*meeting.consult("collective", mine, make_book))
        self._measures = Measures(plan, ranks, running.here, self._book, worlds, full=self._full)

    def run(self) -> None:
        """Raises CheckError: this host is the first that a FAIL is about."""
        limits, stragglers = self._limits, _STRAGGLERS[self._ranks.gpus]
        self._step(
            rows.BURN,
            self._measures.burn,
            lambda told: {rows.BURN: judging.of_burns(told, stragglers)},
        )
        self._end_where_failed(rows.BURN)
        self._step(
            rows.HOST,
            self._measures.alone,
            lambda told: {rows.HOST: judging.of_hosts(told, limits)},
        )
        self._end_where_failed(rows.HOST)
        self._step(rows.JOB, self._measures.together, self._of_job)
        if rows.JOB not in self._bad:
            self._step(rows.HOROVOD, self._measures.by_horovod, self._of_horovod)
        if len(self._book.hosts) > 1 and (self._full or rows.JOB in self._bad):
            self._isolate()
        self._end_where_failed(
            rows.PAIRS, rows.HOROVOD, rows.JOB, rows.NETWORK, rows.LINKS, rows.EFA
        )

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

    def _judged(self, told: Mapping[str, Told], judge: Judge) -> dict[str, Any]:
        """The leader's: weighs, logs, and finds who is the first that a check has failed for."""
        answer = {}
        for name, findings in judge(told).items():
            found = {
                host: weighed(
                    Result(name, each.status, each.evidence, each.remedy, told[host].seconds),
                    self._severities,
                )
                for host, each in findings.items()
            }
            self._tell(
                "\n".join(lines({host: (one,) for host, one in found.items()}, whole=True)[1:])
            )
            # A rank that has waited in vain says less than one that has failed, and the first one knows why.
            failed = sorted(
                (told[host].kind == "late", told[host].seconds, host)
                for host, one in found.items()
                if one.status == "FAIL"
            )
            answer[name] = {
                "results": {host: one.pack() for host, one in found.items()},
                "first": failed[0][-1] if failed else "",
                "bad": any(each.status in ("WARN", "FAIL") for each in findings.values()),
            }
        return answer

    def _take(self, answer: Mapping[str, Any]) -> None:
        for name, each in answer.items():
            if self._host in each["results"]:
                self._results[name] = Result.unpack(each["results"][self._host])
            self._first[name] = each["first"]
            if each["bad"]:
                self._bad.add(name)

    def _end_where_failed(self, *names: str) -> None:
        """Raises CheckError on the host that the first of these checks has failed for."""
        name = next((name for name in names if self._first.get(name)), "")
        if not name or self._first[name] != self._host:
            return
        result = self._results[name]
        raise CheckError(
            f"check {name} on {self._host}: {result.evidence}",
            f"{result.remedy}\nMUSTER_CHECKS={name}=warn goes on all the same.",
        )

    def _isolate(self) -> None:
        """Tries pairs of hosts until it is known which of them it is, or nobody can tell."""
        if rows.PAIRS in self._book.refused:
            return
        done: list[Trial] = []
        pairs = next_round(self._trials(done))
        for number in range(1, ROUNDS + 1):
            if not pairs:
                break
            mine = self._measured(lambda pairs=pairs: self._measures.in_pair(pairs))  # type: ignore[misc]
            answer = self._meeting.consult(
                f"{rows.PAIRS} {number}",
                mine.pack(),
                lambda data, pairs=pairs, last=number == ROUNDS: self._next(
                    _unpacked(data), pairs, done, last=last
                ),
            )
            pairs = [(first, second) for first, second in answer["pairs"]]
            self._take(answer["checks"])

    def _next(
        self, told: Mapping[str, Told], pairs: Sequence[Pair], done: list[Trial], *, last: bool
    ) -> dict[str, Any]:
        """The leader's: the next round, or what all of them have shown."""
        done += [judging.of_pair(pair, told) for pair in pairs]
        trials = self._trials(done)
        following = [] if last else next_round(trials)
        if following:
            return {"pairs": following, "checks": {}}
        seen = self._judged(told, lambda _: {rows.PAIRS: verdicts(trials)})
        return {"pairs": [], "checks": seen}

    def _trials(self, done: Sequence[Trial]) -> Trials:
        return Trials(self._book.hosts, tuple(done), self._limits)

    def _of_job(self, told: Mapping[str, Told]) -> Mapping[str, Mapping[str, Finding]]:
        findings = {rows.JOB: judging.of_job(told, sum(self._ranks.sizes))}
        return findings | judging.of_beside(told, self._book.refused)

    def _of_horovod(self, told: Mapping[str, Told]) -> Mapping[str, Mapping[str, Finding]]:
        return {rows.HOROVOD: judging.of_job(told, sum(self._ranks.sizes))}


def _unpacked(data: Mapping[str, Any]) -> dict[str, Told]:
    return {host: Told.unpack(one) for host, one in data.items()}
