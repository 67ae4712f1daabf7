"""Which of the hosts is it? Pairs of them in worlds of their own, in rounds. Pure.

A host is cleared by one good trial. Each round takes those that are not, with hosts that are where there are any: in the
first round that makes neighbours, in the second each suspect meets a host that has passed. Three hosts make all their pairs.

What is slow is slow against the quickest quarter of the pairs: one slow host among three or more is named, and several are
unless they are in most pairs. Of two hosts, or where no trial clears anybody, nobody can say which it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from muster.check.figures import counted
from muster.check.finding import Finding, Status, passed, unknown

Pair = tuple[str, str]
ROUNDS = 4
"""At most: each may take as long as a world may."""
_ALL_PAIRS = 3
"""So many hosts make all their pairs: of two pairs both may have the slow one."""
_REMEDY = "Start the job again so that it gets other instances; `all_reduce_perf --by-host` repeats it by hand."


@dataclass(frozen=True)
class Limits:
    """Times what others take, from which a time is worth a look, and from which it ends a job."""

    warn: float
    fail: float


ON_GPUS = Limits(1 / 0.85, 1 / 0.7)
ON_CPUS = Limits(5.0, float("inf"))
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
    suspicious: bool = False
    """Whether something is known to be wrong with all hosts together."""

    @property
    def reference(self) -> float:
        """What a quarter of the pairs take at most, in ms: of few pairs most may have the slow host; 0 without any."""
        times = sorted(trial.ms for trial in self.done if not trial.error)
        return times[(len(times) - 1) // 4] if times else 0.0

    def good(self, trial: Trial) -> bool:
        return not trial.error and trial.ms <= self.limits.warn * self.reference

    def of(self, host: str) -> list[Trial]:
        return [trial for trial in self.done if host in trial.pair]

    def cleared(self, host: str) -> bool:
        return any(self.good(trial) for trial in self.of(host))

    def known(self, host: str) -> bool:
        """Whether nothing is left to find out: it is cleared, or was not good with one that is."""
        return self.cleared(host) or any(self.cleared(trial.other(host)) for trial in self.of(host))


def next_round(trials: Trials) -> list[Pair]:
    """Whom to try next, each host once; nothing when all is known, or can't be."""
    met = {frozenset(trial.pair) for trial in trials.done}
    if len(trials.hosts) == _ALL_PAIRS:
        left = [pair for pair in combinations(trials.hosts, 2) if frozenset(pair) not in met]
        return left[:1]
    unknowns = [host for host in trials.hosts if not trials.known(host)]
    free = [host for host in trials.hosts if trials.cleared(host)] + unknowns
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
    if all(trials.good(trial) for trial in trials.done) and trials.suspicious:
        told = f"{_count(trials)}: {_spread(trials)}, and no host stands out: it is all of them, or in most pairs"
        return dict.fromkeys(trials.hosts, unknown(told))
    return {host: _verdict(trials, host) for host in trials.hosts}


def worst_first(trials: Trials) -> list[str]:
    """The hosts, those with the most to answer for first."""

    def badness(host: str) -> tuple[int, float]:
        bad = [trial for trial in trials.of(host) if not trials.good(trial)]
        return -sum(bool(trial.error) for trial in bad), -sum(trial.ms for trial in bad)

    return sorted(trials.hosts, key=lambda host: (trials.cleared(host), *badness(host)))


def _verdict(trials: Trials, host: str) -> Finding:
    mine = trials.of(host)
    bad = [trial for trial in mine if not trials.good(trial)]
    if not mine:
        return unknown("no host was left to try it with")
    if not bad:
        return passed(f"{_count(trials)}: {_spread(trials)}")
    told = "; ".join(f"with {trial.other(host)}: {_shown(trials, trial)}" for trial in bad)
    well = [trial for trial in bad if trials.cleared(trial.other(host))]
    if trials.cleared(host):
        # Where the other one is not, it is the other one.
        between = f"{told}; with others both are well"
        return Finding("WARN", between, _REMEDY) if well else passed(f"well, but {told}")
    status = _status(trials, well or bad)
    if well:
        others = " and ".join(trial.other(host) for trial in well)
        return Finding(status, f"{told}; with others {others} did well", _REMEDY)
    evidence = f"{told}; it may as well be the other one: no third host can tell"
    return Finding(status, evidence, _REMEDY)


def _status(trials: Trials, bad: Sequence[Trial]) -> Status:
    """By its best: in the others it may have suffered for its partner."""
    limit = trials.limits.fail * trials.reference
    return "WARN" if any(not trial.error and trial.ms <= limit for trial in bad) else "FAIL"


def _shown(trials: Trials, trial: Trial) -> str:
    if trial.error:
        # Its ranks are counted anew in each pair.
        return f"{trial.error} (of the pair)" if trial.error.startswith("rank ") else trial.error
    times = f"{trial.ms / trials.reference:.1f} times what the quickest of {_count(trials)} take"
    return f"{trial.ms:.1f} ms, {times}"


def _count(trials: Trials) -> str:
    return counted(len(trials.done), "pair")


def _spread(trials: Trials) -> str:
    times = [trial.ms for trial in trials.done if not trial.error]
    return f"{min(times):.1f} to {max(times):.1f} ms"
