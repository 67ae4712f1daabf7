"""Variables about the checks before the ranks begin."""

from __future__ import annotations

from muster.variables import Setting, one_of, severities

LEVELS = ("off", "fast", "full")
EFA = ("auto", "require", "off")

CHECK: dict[str, Setting] = {
    "check": Setting(
        "MUSTER_CHECK",
        one_of(LEVELS),
        "fast",
        "one of " + ", ".join(LEVELS),
        "What is looked at before the ranks begin (docs/checks.md).",
    ),
    "severities": Setting(
        "MUSTER_CHECKS",
        severities,
        {},
        "CHECK=off, CHECK=warn or CHECK=fail, with commas",
        "What single checks may do: host.shm=off,gpu.clocks=fail.",
    ),
    "baseline": Setting(
        "MUSTER_BASELINE",
        str,
        None,
        "a file",
        "The JSON of a good run of all_reduce_perf, which the checks hold this one against (docs/checks.md). Default: muster-baseline.json in the checkpoints, if it is there.",
    ),
    "efa": Setting(
        "MUSTER_EFA",
        one_of(EFA),
        "auto",
        "one of " + ", ".join(EFA),
        "What the checks want of EFA: auto, all devices of an instance that has them; require, EFA or no job; off, nothing.",
    ),
}
