"""The roll call of many hosts on one machine: muster's own leader, and its own members.

    rollcall.py leader  PORT HOSTS SECONDS   one process; prints its memory and its share of a core
    rollcall.py members PORT HOSTS           all others, each from an address of its own on 127.0.0.0/8

The members' process prints how long it took from the first call to the last host's welcome.
"""

from __future__ import annotations

import json
import resource
import selectors
import sys
import time

from muster.channel.agreement import HostFacts
from muster.channel.coordinator import Coordinator
from muster.channel.key import job_key
from muster.channel.leader import Leader, Rules, listen
from muster.channel.member import Member, Route
from muster.channel.names import Resolver
from muster.channel.peer import Peer
from muster.channel.phases import Limits

BEAT_S, SILENCE_S = 2.0, 10.0
LIMIT_S = 120.0
TURN_S = 0.1
FILES = 8192
KEY = job_key("bench", "a secret")


def address(number: int) -> str:
    """Return the address of host `number`, from 0. Pure."""
    return f"127.2.{number // 250}.{number % 250 + 1}"


def names(count: int) -> list[str]:
    """Return the hosts' names. Pure."""
    return [f"algo-{number + 1}" for number in range(count)]


def facts(hosts: list[str]) -> HostFacts:
    """Return what each of them tells. Pure."""
    every = tuple(hosts)
    return HostFacts(every, every, "group", 8, "0.1.0", "ddp-cpu", "2.13.0", "eth0", "", 7777)


def has(peer: Peer, kind: str) -> bool:
    """Return whether the peer was told this. Pure."""
    return any(message["type"] == kind for message in peer.directives)


def lead(port: int, hosts: list[str], seconds: float) -> dict[str, float]:
    """Lead the roll call, then hold the channel for so many seconds. Effects: a listener."""
    coordinator = Coordinator(hosts, Limits(rollcall=LIMIT_S), time.monotonic())
    known = Resolver({name: address(number) for number, name in enumerate(hosts)})
    rules = Rules(by_name=True, beat=BEAT_S, silence=SILENCE_S)
    leader = Leader(hosts[0], coordinator, listen(port, address(0)), KEY, known, rules)
    print("listening", flush=True)
    leader.join(facts(hosts))
    while not has(leader, "welcome"):
        if has(leader, "verdict"):
            raise SystemExit("not all hosts have come")
        turn(leader)
    leader.directives.clear()
    used, began = time.process_time(), time.monotonic()
    while time.monotonic() < began + seconds:
        turn(leader)
        if leader.directives:
            raise SystemExit(f"the idle job has ended: {leader.directives[0]}")
    share = (time.process_time() - used) / (time.monotonic() - began)
    return {"memory": rss(), "share": 100 * share}


def turn(peer: Peer) -> None:
    """Wait for what the peer has to do, and let it. Effects: the peer's."""
    with selectors.DefaultSelector() as selector:
        selector.register(peer, selectors.EVENT_READ)
        selector.select(peer.patience())
    peer.turn()


def rss() -> float:
    """Return this process's resident memory in MB. Effects: reads /proc."""
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024 / 1e6


def call(port: int, hosts: list[str]) -> dict[str, float]:
    """Let all other hosts join, and stay until the leader goes. Effects: connections."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    known = {name: address(number) for number, name in enumerate(hosts)}
    route = Route(hosts[0], port, patience=LIMIT_S, beat=BEAT_S, silence=SILENCE_S)
    # One selector can't hold 500 that share a descriptor: a resolver each.
    members = [Member(name, KEY, Resolver(known), route) for name in hosts[1:]]
    selector = selectors.DefaultSelector()
    for member in members:
        selector.register(member, selectors.EVENT_READ, member)
    began = time.monotonic()
    for member in members:
        member.join(facts(hosts))
    took = 0.0
    next_turn = began
    while not all(has(member, "verdict") for member in members):
        woken = [key.data for key, _ in selector.select(TURN_S)]
        if time.monotonic() >= next_turn:
            next_turn = time.monotonic() + TURN_S
            woken = members
        for member in woken:
            member.turn()
        if not took and all(has(member, "welcome") for member in members):
            took = time.monotonic() - began
            print(json.dumps({"seconds": took}), flush=True)
    return {"seconds": took}


def main(part: str, port: str, count: str, seconds: str = "0") -> None:
    """Play one part. Effects: as above."""
    hosts = names(int(count))
    if part == "leader":
        print(json.dumps(lead(int(port), hosts, float(seconds))), flush=True)
    else:
        call(int(port), hosts)


main(*sys.argv[1:])
