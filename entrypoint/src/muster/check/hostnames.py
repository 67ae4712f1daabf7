"""The names of all hosts of the job lead to addresses, and not to this host. Effects: the name server, by threads."""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from muster.check.bounded import Late, all_within
from muster.check.figures import counted
from muster.check.finding import Check, Finding, Here, combined, passed, skipped, unknown

LOOK_S = 3.0
_AGAIN_S = 0.5
_NAMED = 4


@dataclass(frozen=True)
class Answer:
    """What the name server says of one host."""

    host: str
    addresses: tuple[str, ...] = ()
    late: bool = False
    """Whether no answer came in time."""
    told: bool = False
    """Whether MUSTER_ADDRESSES has its address."""


def _names(here: Here) -> Finding:
    job = here.job
    if len(job.hosts) == 1:
        return skipped("the job has one host")
    found = judge(_ask(job.hosts, here.settings.addresses), job.current_host)
    if here.settings.exec_only and found.status == "FAIL":
        # Nobody has called the roll: names of other hosts may come a little later.
        return dataclasses.replace(found, status="WARN")
    return found


def _ask(hosts: Iterable[str], told: Mapping[str, str]) -> list[Answer]:
    looks = {host: partial(_look_up, told.get(host, host)) for host in hosts}
    found = all_within(LOOK_S, looks)
    return [
        Answer(host, late=isinstance(answer, Late), told=host in told)
        if isinstance(answer, Exception)
        else Answer(host, answer, told=host in told)
        for host, answer in found.items()
    ]


def _look_up(name: str) -> tuple[str, ...]:
    """All addresses of a name. Raises OSError and UnicodeError."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror:
        # The hosts have met: the name was there a moment ago.
        time.sleep(_AGAIN_S)
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def judge(answers: Iterable[Answer], current: str) -> Finding:
    """The first host's name is the one at which all ranks meet: without it nothing begins.

    Args:
        answers: of all hosts, the first host's first.
        current: this host.
    """
    answers = list(answers)
    missing = [one.host for one in answers if not one.addresses and not one.late]
    late = [one.host for one in answers if one.late]
    # This host's own name may lead to the loopback, as Debian's /etc/hosts has it.
    looped = [
        one.host
        for one in answers
        if one.addresses
        and one.host != current
        and not one.told
        and all(map(_loops, one.addresses))
    ]
    remedy = "MUSTER_ADDRESSES=HOST=ADDRESS,… for all hosts gives what the name server lacks."
    parts = []
    if missing:
        evidence = f"{_some(missing)}: no address from here"
        lost = answers[0].host in missing
        parts.append(Finding("FAIL" if lost else "WARN", evidence, remedy))
    if looped:
        evidence = f"{_some(looped)}: the name leads back to this host (loopback)"
        parts.append(Finding("WARN", evidence, f"Look at /etc/hosts. {remedy}"))
    if late:
        parts.append(unknown(f"{_some(late)}: no answer from the name server in {LOOK_S:g} s"))
    if not parts:
        return passed(f"{counted(len(answers), 'name')} resolved")
    return combined(parts)


def _some(hosts: list[str]) -> str:
    more = f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else ""
    return ", ".join(hosts[:_NAMED]) + more


def _loops(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


CHECKS = (
    Check(
        "host.names",
        "fast",
        "The names of all hosts, asked of the name server all at once",
        _names,
        limits="FAIL where the first host's name has no address; WARN for another's, and for one "
        "that leads to the loopback",
        source="all ranks meet at the first host's name (MASTER_ADDR); launchers may call the others by theirs",
        remedy="`MUSTER_ADDRESSES`, or names that resolve",
    ),
)
