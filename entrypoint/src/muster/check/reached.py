"""What came of all hosts' calls to each other: who reaches whom, and by which way. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.check.alike import differing, named
from muster.check.finding import Finding, passed, skipped, unknown
from muster.check.remedies import MTU, ONE_ADDRESS, OPEN, TWO_NETWORKS
from muster.check.told import Network

Networks = Mapping[str, Network]


def judge_reach(networks: Networks) -> tuple[str, Finding]:
    """Whether all that were called have answered, and whom that is about."""
    calling = {host: each for host, each in networks.items() if each.called}
    if not calling:
        return _without_calls(networks)
    pairs = [(host, peer) for host, each in calling.items() for peer in each.failed]
    first = next(iter(calling))
    if pairs:
        host, text = _explain(pairs, calling)
        return host, Finding("FAIL", text, OPEN)
    troubled = [f"{host} {each.trouble}" for host, each in networks.items() if each.trouble]
    if troubled:
        return first, unknown("; ".join(troubled))
    took = sorted(time for each in calling.values() for time in each.reached.values())
    if not took:
        return first, unknown("no other host took part")
    slowest = max(
        ((host, peer) for host, each in calling.items() for peer in each.reached),
        key=lambda pair: calling[pair[0]].reached[pair[1]],
    )
    spread = "" if _all_pairs(calling) else f", {len(took) // len(calling)} peers a host"
    return first, passed(
        f"{len(calling)} hosts, {len(took)} calls answered{spread}; round trip {took[len(took) // 2]:.2f} ms (median), "
        f"{took[-1]:.2f} ms at most ({slowest[0]} to {slowest[1]})"
    )


def _without_calls(networks: Networks) -> tuple[str, Finding]:
    for host, each in networks.items():
        if each.trouble:
            return host, unknown(f"{host} {each.trouble}")
    return next(iter(networks), ""), skipped("no host takes part")


def _all_pairs(calling: Networks) -> bool:
    return all(len(each.reached) >= len(calling) - 1 for each in calling.values())


def _explain(pairs: Sequence[tuple[str, str]], calling: Networks) -> tuple[str, str]:
    """The host whom nobody reaches, or who reaches nobody; else the pairs."""
    for peer in dict.fromkeys(peer for _, peer in pairs):
        callers = [host for host, other in pairs if other == peer]
        answered = any(peer in each.reached for each in calling.values())
        if not answered and len(callers) > 1:
            return peer, f"no host reaches {peer} {_place(callers[0], peer, calling)}"
    for host in dict.fromkeys(host for host, _ in pairs):
        peers = [peer for caller, peer in pairs if caller == host]
        if not calling[host].reached and len(peers) > 1:
            return host, f"{host} reaches no host: {peers[0]} {_place(host, peers[0], calling)}"
    texts = [f"{host} does not reach {peer} {_place(host, peer, calling)}" for host, peer in pairs]
    return pairs[0][1], named(texts)


def _place(host: str, peer: str, calling: Networks) -> str:
    address, port, why = calling[host].failed[peer]
    return f"at {address}:{port} ({why})"


def judge_path(networks: Networks) -> tuple[str, Finding]:
    """Whether hosts call from the address that they told, which is the one that NCCL and Gloo publish."""
    calling = {host: each for host, each in networks.items() if each.called}
    if not calling:
        return _without_calls(networks)
    alike: dict[str, list[str]] = {}
    for host, each in calling.items():
        alike.setdefault(each.address, []).append(host)
    if same := [on for on in alike.values() if len(on) > 1]:
        return same[0][1], Finding(
            "FAIL",
            f"{named(same[0])} have the same address {calling[same[0][0]].address}",
            ONE_ADDRESS,
        )
    other: dict[str, str] = {}
    for peer, each in calling.items():
        for host, source in each.callers.items():
            if host in calling and source != calling[host].address and not _local(source):
                mine = calling[host]
                other.setdefault(
                    host,
                    f"{host} calls {peer} from {source}; its {mine.interface} has {mine.address}",
                )
    first = next(iter(calling))
    if other:
        return next(iter(other)), Finding("WARN", named(list(other.values())), TWO_NETWORKS)
    if not any(each.callers for each in calling.values()):
        return first, unknown("no host was called")
    return first, passed("all hosts call from their interface's address")


def _local(address: str) -> bool:
    """Hosts on one machine's loopback call from its first address, whatever their own is."""
    return address.startswith("127.")


def judge_mtu(networks: Networks) -> tuple[str, Finding]:
    """Whether all hosts send packets of the same size."""
    known = {host: each.mtu for host, each in networks.items() if each.mtu}
    first = next(iter(networks), "")
    if len(known) < 2:  # noqa: PLR2004  (two to compare)
        return first, unknown("the MTU of the interfaces is not known")
    host, text = differing(known, lambda mtu: f"MTU {mtu}")
    if host:
        return host, Finding("WARN", text, MTU)
    return first, passed(f"MTU {known[next(iter(known))]} on {len(known)} hosts")


def latency_lines(networks: Networks) -> list[str]:
    """A table for the log: each host's round trips, the slowest host first."""
    rows = []
    for host, each in networks.items():
        took = sorted(each.reached.values())
        if took:
            slowest = max(each.reached, key=lambda peer: each.reached[peer])
            rows.append((took[-1], took[len(took) // 2], host, slowest))
    if not rows:
        return []
    rows.sort(key=lambda row: (-row[0], row[2]))
    width = max(len(host) for _, _, host, _ in rows)
    return [
        "round trips in ms: median, at most",
        *(
            f"  {host:<{width}} {middle:8.2f} {most:8.2f} (to {slowest})"
            for most, middle, host, slowest in rows
        ),
    ]
