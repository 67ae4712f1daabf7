"""Processes that hang in the kernel, and ended ones that nobody has waited for. Effects: reads /proc."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from muster.check.figures import counted
from muster.check.finding import Check, Finding, Here, passed, unknown

ZOMBIES_A_PROCESSOR = 50
LOOKS, BETWEEN_S = 4, 0.2
_NAMED = 3

Waiting = Mapping[int, tuple[str, int]]
"""Processes in an uninterruptible wait: by number, the command, and the processor's ticks so far."""


def _processes(here: Here) -> Finding:
    states, waiting = _look(here.proc)
    looks = [waiting]
    # Reading a disk is such a wait too: what hangs is in it each time, and gets nothing done.
    while looks[-1] and len(looks) < LOOKS:
        time.sleep(BETWEEN_S)
        looks.append(_look(here.proc)[1])
    return judge(states, looks, here.job.machine.cpus)


def _look(proc: str) -> tuple[Counter[str], dict[int, tuple[str, int]]]:
    """How many processes are in each state, and those that wait. Raises OSError."""
    states: Counter[str] = Counter()
    waiting = {}
    for name in os.listdir(proc):
        if not name.isdecimal():
            continue
        try:
            with open(f"{proc}/{name}/stat", encoding="utf-8", errors="replace") as file:
                # The command may hold blanks and brackets: count from behind it.
                command, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            continue  # It has ended meanwhile.
        words = rest.split()
        states[words[0]] += 1
        if words[0] == "D":
            waiting[int(name)] = command, int(words[11]) + int(words[12])
    return states, waiting


def judge(states: Mapping[str, int], looks: Sequence[Waiting], cpus: int) -> Finding:
    """What the states say.

    Args:
        states: how many processes are in each, by its letter.
        looks: the processes in state D, a little later each time.
        cpus: processors that this host may use.
    """
    if not sum(states.values()):
        return unknown("/proc shows no process")
    zombies = states.get("Z", 0)
    kept = [
        f"{command} ({pid})"
        for pid, (command, ticks) in looks[0].items()
        if len(looks) == LOOKS and all(look.get(pid) == (command, ticks) for look in looks)
    ]
    evidence = f"{counted(sum(states.values()), 'process')}, {counted(zombies, 'zombie')}"
    if kept:
        return Finding(
            "WARN",
            f"{evidence}; in the kernel for {(LOOKS - 1) * BETWEEN_S:g} s: {', '.join(kept[:_NAMED])}",
            "A file system or a driver does not answer them: look at mounts and GPUs.",
        )
    if zombies > ZOMBIES_A_PROCESSOR * max(1, cpus):
        return Finding("WARN", evidence, "Find what starts processes and never waits for them.")
    return passed(evidence)


CHECKS = (
    Check(
        "host.processes",
        "fast",
        "Processes in an uninterruptible wait (state D) and zombies, as /proc shows them here",
        _processes,
        limits="WARN above 50 zombies a processor, and for a wait that lasts four looks in 0.6 s",
        source="Azure/cyclecloud-healthagent: 50 zombies a core; facebookresearch/gcm: check_dstate",
        remedy="look at mounts and drivers; `docker run --init` where a command starts many others",
    ),
)
