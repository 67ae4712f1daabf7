import dataclasses

import pytest

from muster.check.probing import MANY, SPREAD
from muster.check.reached import judge_mtu, judge_path, judge_reach, latency_lines
from muster.check.told import Network

NAMES = ("algo-1", "algo-2", "algo-3")


def network(host: str, hosts=NAMES, **changes) -> Network:
    """One host whose calls have all been answered."""
    others = [peer for peer in hosts if peer != host]
    number = host.rpartition("-")[2]
    made = Network(
        "eth0",
        f"10.0.0.{number}",
        1500,
        reached=dict.fromkeys(others, 0.2),
        callers={peer: f"10.0.0.{peer.rpartition('-')[2]}" for peer in others},
        called=True,
    )
    return dataclasses.replace(made, **changes)


def job(hosts=NAMES, **changed) -> dict[str, Network]:
    """All hosts; those that are named are given."""
    return {host: changed.get(host.replace("-", ""), network(host, hosts)) for host in hosts}


def without(host: str, *peers: str, hosts=NAMES, why="no answer within 2 s") -> Network:
    """A host whose calls to some peers were not answered."""
    reached = {peer: 0.2 for peer in hosts if peer not in (host, *peers)}
    failed = {peer: (f"10.0.0.{peer[-1]}", 40000, why) for peer in peers}
    return network(host, hosts, reached=reached, failed=failed)


def test_all_reach_all():
    """The evidence has the count, and median and slowest round trip with its hosts."""
    slow = network("algo-3", reached={"algo-1": 0.3, "algo-2": 7.0})
    host, found = judge_reach(job(algo3=slow))
    assert (host, found.status) == ("algo-1", "PASS")
    assert found.evidence == (
        "3 hosts, 6 calls answered; round trip 0.20 ms (median), 7.00 ms at most (algo-3 to algo-2)"
    )


def test_a_host_that_nobody_reaches():
    """It is named, not those that have called it."""
    host, found = judge_reach(
        job(algo1=without("algo-1", "algo-2"), algo3=without("algo-3", "algo-2"))
    )
    assert (host, found.status) == ("algo-2", "FAIL")
    assert found.evidence == "no host reaches algo-2 at 10.0.0.2:40000 (no answer within 2 s)"
    assert "security group" in found.remedy


def test_a_host_that_reaches_nobody():
    """It can't get out, and the others are well."""
    host, found = judge_reach(job(algo3=without("algo-3", "algo-1", "algo-2")))
    assert (host, found.status) == ("algo-3", "FAIL")
    assert found.evidence.startswith("algo-3 reaches no host: algo-1 at 10.0.0.1:40000")


def test_a_pair():
    """One way between two hosts is closed: both are named."""
    host, found = judge_reach(job(algo1=without("algo-1", "algo-3", why="Connection refused")))
    assert host == "algo-3"
    assert found.evidence == "algo-1 does not reach algo-3 at 10.0.0.3:40000 (Connection refused)"


def test_two_hosts_are_both_named():
    """With two hosts it is not known whose fault it is."""
    two = NAMES[:2]
    _, found = judge_reach(job(two, algo1=without("algo-1", "algo-2", hosts=two)))
    assert found.evidence.startswith("algo-1 does not reach algo-2 at ")


def test_a_host_that_could_not_listen():
    """It could not be looked at, which is no PASS."""
    _, found = judge_reach(
        job(algo2=Network("eth0", "10.0.0.2", 1500, trouble="can't listen on 10.0.0.2: no"))
    )
    assert (found.status, found.evidence) == ("UNKNOWN", "algo-2 can't listen on 10.0.0.2: no")


def test_nobody_takes_part():
    """It is switched off on all hosts."""
    silent = {host: Network("eth0", "10.0.0.2", 1500) for host in NAMES}
    assert [judge(silent)[1].status for judge in (judge_reach, judge_path)] == ["SKIP", "SKIP"]
    alone = {"algo-1": network("algo-1", ("algo-1",))}
    assert judge_reach(alone)[1].status == "UNKNOWN"


def test_one_could_not_and_nobody_else_takes_part():
    """The reason is told."""
    _, found = judge_reach({"algo-1": Network("", "", 0, trouble="has no address")})
    assert (found.status, found.evidence) == ("UNKNOWN", "algo-1 has no address")


def test_with_many_hosts_the_spread_is_told():
    """What was not called is not said to be reached."""
    hosts = tuple(f"algo-{number + 1}" for number in range(MANY + 1))
    reached = {host: dict.fromkeys(hosts[:SPREAD], 0.2) for host in hosts}
    found = {host: network(host, hosts, reached=reached[host]) for host in hosts}
    assert f"{SPREAD} peers a host" in judge_reach(found)[1].evidence


def test_the_same_path():
    """Calls come from the addresses that the hosts have told."""
    assert judge_path(job())[1].status == "PASS"


def test_a_second_bridge():
    """A host that leaves by another network than the one it tells NCCL of."""
    callers = {"algo-1": "172.17.0.2", "algo-3": "10.0.0.3"}
    host, found = judge_path(job(algo2=network("algo-2", callers=callers)))
    assert (host, found.status) == ("algo-1", "WARN")
    assert found.evidence == "algo-1 calls algo-2 from 172.17.0.2; its eth0 has 10.0.0.1"
    assert "NCCL_SOCKET_IFNAME" in found.remedy


def test_hosts_on_one_machine():
    """All call from the loopback's first address: there is no second network."""
    callers = {"algo-1": "127.0.0.1", "algo-3": "127.0.0.1"}
    assert judge_path(job(algo2=network("algo-2", callers=callers)))[1].status == "PASS"


def test_two_hosts_with_one_address():
    """The same container twice, or two behind one address."""
    host, found = judge_path(job(algo3=network("algo-3", address="10.0.0.1")))
    assert (host, found.status) == ("algo-3", "FAIL")
    assert found.evidence == "algo-1, algo-3 have the same address 10.0.0.1"


def test_nobody_was_called():
    """Of no call nothing is known."""
    assert judge_path(job(("algo-1",)))[1].status == "UNKNOWN"


def test_packets_of_one_size():
    """The same MTU is well, another one is named, and none is not known."""
    assert judge_mtu(job())[1].evidence == "MTU 1500 on 3 hosts"
    host, found = judge_mtu(job(algo2=network("algo-2", mtu=9001)))
    assert (host, found.status) == ("algo-2", "WARN")
    assert found.evidence == "MTU 9001 on algo-2, MTU 1500 on the 2 others"
    unknown = {host: network(host, mtu=0) for host in NAMES}
    assert judge_mtu(unknown)[1].status == "UNKNOWN"


def test_the_table_of_round_trips():
    """The slowest host is first; nothing is shown of nobody."""
    slow = network("algo-3", reached={"algo-1": 0.3, "algo-2": 7.0})
    lines = latency_lines(job(algo3=slow))
    assert lines[0] == "round trips in ms: median, at most"
    assert lines[1] == "  algo-3     7.00     7.00 (to algo-2)"
    assert len(lines) == 4
    assert latency_lines({}) == []
    assert latency_lines({"algo-1": network("algo-1", ("algo-1",))}) == []


@pytest.mark.parametrize("judge", [judge_reach, judge_path, judge_mtu])
def test_of_nobody_nothing_is_known(judge):
    """Hosts that have told nothing break nothing, and are no PASS."""
    assert judge({})[1].status in ("SKIP", "UNKNOWN")
