"""Which of the hosts is it? Pairs of them in worlds of their own, in rounds. Pure.

A host is cleared by one good trial. Each round takes those that are not, with hosts that are where there are any: in the
first round that makes neighbours, in the second each suspect meets a host that has passed. Two rounds tell, unless more
than half of the hosts are bad. Where no trial clears anybody, or of two hosts, nobody can say which it is.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from muster.check.figures import counted
from muster.check.finding import Finding, Status, passed, skipped, unknown

Pair = tuple[str, str]
ROUNDS = 4
"""At most: each may take as long as a world may."""
_REMEDY = "Start the job again so that it gets other instances; `all_reduce_perf --by-host` repeats it by hand."


@dataclass(frozen=True)
class Limits:
    """Times the median, from which a time is worth a look, and from which it ends a job."""

    warn: float
    fail: float


ON_GPUS = Limits(1 / 0.85, 1 / 0.7)
ON_CPUS = Limits(3.0, float("inf"))
"""Ranks that share cores wait for each other: no more than a warning."""


@dataclass(frozen=True)
class Trial:
    """What two hosts have shown together."""

    pair: Pair
    error: str = ""
    """Why there is no time."""
    ms: float = 0.0

    def other(self, host: str) -> str:
        return self.pair[1] if host == self.pair[0] else self.pair[0]


@dataclass(frozen=True)
class Trials:
    """All trials so far, of the hosts in the job's order."""

    hosts: Sequence[str]
    done: Sequence[Trial]
    limits: Limits

    @property
    def median(self) -> float:
        """The lower median of the times in ms: of two pairs one of which is slow, the other's; 0 without any."""
        times = [trial.ms for trial in self.done if not trial.error]
        return statistics.median_low(times) if times else 0.0

    def good(self, trial: Trial) -> bool:
        return not trial.error and trial.ms <= self.limits.warn * self.median

    def of(self, host: str) -> list[Trial]:
        return [trial for trial in self.done if host in trial.pair]

    def cleared(self, host: str) -> bool:
        return any(self.good(trial) for trial in self.of(host))

    def known(self, host: str) -> bool:
        """Whether nothing is left to find out: it is cleared, or was not good with one that is."""
        return self.cleared(host) or any(self.cleared(trial.other(host)) for trial in self.of(host))


def next_round(trials: Trials) -> list[Pair]:
    """Whom to try next, each host once; nothing when all is known, or can't be."""
    unknowns = [host for host in trials.hosts if not trials.known(host)]
    free = [host for host in trials.hosts if trials.cleared(host)] + unknowns
    met = {frozenset(trial.pair) for trial in trials.done}
    pairs: list[Pair] = []
    for host in unknowns:
        partner = next(
            (one for one in free if one != host and frozenset((one, host)) not in met), None
        )
        if host in free and partner:
            free = [one for one in free if one not in (host, partner)]
            first, second = sorted((host, partner), key=trials.hosts.index)
            pairs.append((first, second))
    return pairs


def verdicts(trials: Trials) -> dict[str, Finding]:
    """What the trials say of each host."""
    if len(trials.hosts) == 1:
        return {trials.hosts[0]: skipped("there is one host")}
    return {host: _verdict(trials, host) for host in trials.hosts}


def _verdict(trials: Trials, host: str) -> Finding:
    mine = trials.of(host)
    bad = [trial for trial in mine if not trials.good(trial)]
    if not mine:
        return unknown("no host was left to try it with")
    if not bad:
        return passed(f"{_count(trials)}: {_spread(trials)}")
    status: Status = "WARN" if all(_is_mild(trials, trial) for trial in bad) else "FAIL"
    told = "; ".join(f"with {trial.other(host)}: {_shown(trials, trial)}" for trial in bad)
    well = [trial.other(host) for trial in bad if trials.cleared(trial.other(host))]
    if trials.cleared(host):
        # Where the other one is not, it is the other one.
        between = f"{told}; with others both are well"
        return Finding("WARN", between, _REMEDY) if well else passed(f"well, but {told}")
    if well:
        return Finding(status, f"{told}; with others {' and '.join(well)} did well", _REMEDY)
    evidence = f"{told}; it may as well be the other one: no third host can tell"
    return Finding(status, evidence, _REMEDY)


def _is_mild(trials: Trials, trial: Trial) -> bool:
    return not trial.error and trial.ms <= trials.limits.fail * trials.median


def _shown(trials: Trials, trial: Trial) -> str:
    if trial.error:
        return trial.error
    times = f"{trial.ms / trials.median:.1f} times the median of {_count(trials)}"
    return f"{trial.ms:.1f} ms, {times}"


def _count(trials: Trials) -> str:
    return counted(len(trials.done), "pair")


def _spread(trials: Trials) -> str:
    times = [trial.ms for trial in trials.done if not trial.error]
    return f"{min(times):.1f} to {max(times):.1f} ms"
