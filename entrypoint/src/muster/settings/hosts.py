"""Variables about how the hosts of a job meet, and when one of them counts as lost."""

from __future__ import annotations

from muster.variables import Setting, addresses, duration, one_of, port, seconds

ADMISSIONS = ("name", "secret")
"""What a host must show to join: an address of its name, or the job's secret alone."""

HOSTS: dict[str, Setting] = {
    "job_arn": Setting(
        "TRAINING_JOB_ARN", str, None, "an ARN", "What names the job to its hosts, set by AWS."
    ),
    "port": Setting(
        "MUSTER_PORT", port, 7770, "1 to 65535", "The port of the first host, where hosts meet."
    ),
    "rollcall_s": Setting(
        "MUSTER_ROLLCALL_S",
        seconds,
        900.0,
        "seconds",
        "How long the hosts of the job may take to start.",
    ),
    "admit": Setting(
        "MUSTER_ADMIT",
        one_of(ADMISSIONS),
        "name",
        "one of " + ", ".join(ADMISSIONS),
        "Who may join: name, hosts that call from an address of their name; secret, hosts that "
        "know MUSTER_JOB_SECRET, from anywhere.",
    ),
    "job_secret": Setting(
        "MUSTER_JOB_SECRET",
        str,
        None,
        "a random text",
        "What only this job's hosts know (docs/channel.md). The script does not see it.",
    ),
    "beat_s": Setting(
        "MUSTER_BEAT_S", duration, 2.0, "seconds", "How often hosts tell each other that they live."
    ),
    "silence_s": Setting(
        "MUSTER_SILENCE_S",
        duration,
        10.0,
        "seconds",
        "After so long a silence a host is lost, and a rank that SIGSTOP has stopped is stalled.",
    ),
    "settle_s": Setting(
        "MUSTER_SETTLE_S",
        seconds,
        1.0,
        "seconds",
        "How long an earlier cause may still come in from another host after a failure.",
    ),
    "straggle_s": Setting(
        "MUSTER_STRAGGLE_S",
        seconds,
        600.0,
        "seconds",
        "How long the last ranks may run after others have ended well; 0: for ever.",
    ),
    "addresses": Setting(
        "MUSTER_ADDRESSES",
        addresses,
        {},
        "host=address,host=address",
        "Addresses of hosts whose names don't resolve.",
    ),
}
