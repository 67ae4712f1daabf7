"""Variables about the run itself: supervision, the log, and the end."""

from __future__ import annotations

from muster.variables import Setting, one_of, seconds, switch

LOG_MODES = ("rank0-raw", "prefix", "rank0", "failed")
"""What of the ranks' output the log shows; launch/policy.py says what each does."""

RUN: dict[str, Setting] = {
    "log": Setting(
        "MUSTER_LOG",
        one_of(LOG_MODES),
        "rank0-raw",
        "one of " + ", ".join(LOG_MODES),
        "Whose output the log shows, and how (docs/design.md). What it hides is in files.",
    ),
    "log_dir": Setting(
        "MUSTER_LOG_DIR",
        str,
        None,
        "a folder",
        "Each rank's whole output as files, at most 512 MiB a stream.",
    ),
    "hold_s": Setting(
        "MUSTER_HOLD_S",
        seconds,
        0.0,
        "seconds",
        "How long a failed container stays, for a look into it. A stop ends the wait.",
    ),
    "mask": Setting(
        "MUSTER_MASK",
        switch,
        default=True,
        accepts="1 or 0",
        meaning="Hide secrets in the log, the failure file and the record.",
    ),
    "stop_grace_s": Setting(
        "MUSTER_STOP_GRACE_S",
        seconds,
        110.0,
        "seconds",
        "Time for the ranks to save after SIGTERM. SageMaker kills after 120.",
    ),
    "abort_grace_s": Setting(
        "MUSTER_ABORT_GRACE_S",
        seconds,
        10.0,
        "seconds",
        "Time for the other ranks to end after one has failed.",
    ),
    "gloo_pause_s": Setting(
        "MUSTER_GLOO_PAUSE_S",
        seconds,
        0.1,
        "seconds",
        "How long a rank with threads of gloo waits for them at its end (training/gloo.py).",
    ),
    "exec_only": Setting(
        "MUSTER_EXEC",
        switch,
        default=False,
        accepts="1 or 0",
        meaning="Replace the harness by the launcher: no supervision, no failure file.",
    ),
}
