"""What the hosts find out about the network, and about each other, before their ranks begin."""

from __future__ import annotations

import os
import shutil
import subprocess
import time

import pytest
from cluster import Cluster, Host, begun_job

pytestmark = pytest.mark.docker

PLAIN = {"MUSTER_LAUNCHER": "plain"}
SITE = "/opt/venv/lib/python3.11/site-packages"


@pytest.fixture
def job(tmp_path):
    """Return a function that describes a job whose script only says that it has begun."""
    return lambda hosts, **environment: begun_job(tmp_path, hosts, PLAIN | environment)


def drop_calls(host: Host) -> None:
    """Let no call in, in the host's own network namespace; what it calls itself goes on."""
    if os.geteuid() or not (shutil.which("nsenter") and shutil.which("iptables")):
        pytest.skip("needs root, nsenter and iptables on this machine")
    rule = ["-A", "INPUT", "-i", "eth0", "-p", "tcp", "--syn", "-j", "DROP"]
    words = ["nsenter", "--target", str(host.pid), "--net", "iptables", "--wait", *rule]
    subprocess.run(words, check=True, capture_output=True, timeout=30)


def test_hosts_that_reach_each_other(job):
    """The check is passed by all, costs little, and no port stays open."""
    with Cluster(job(3, MUSTER_CHECK="full")) as cluster:
        assert cluster.run() == [0, 0, 0]
        log = cluster.hosts[0].output
        assert "round trips in ms" in log
        assert "net.reach" not in log  # Only what is not well has a line of its own.
        assert all("begun" in host.output for host in cluster.hosts)


@pytest.mark.parametrize(
    ("hosts", "reason"),
    [
        (2, "check net.reach on algo-2: algo-1 does not reach algo-2 at "),
        (3, "check net.reach on algo-3: no host reaches algo-3 at "),
    ],
)
def test_a_peer_port_that_is_dropped(job, hosts, reason):
    """The host is named on all hosts within seconds, and no rank begins."""
    with Cluster(job(hosts)) as cluster:
        *others, last = cluster.hosts
        # It waits for the first host meanwhile.
        cluster.start(last)
        drop_calls(last)
        began = time.monotonic()
        cluster.start(*others)
        assert [host.wait() for host in cluster.hosts] == [75] * hosts
        assert time.monotonic() - began < 20
        for host in cluster.hosts:
            assert host.failure.startswith(reason), host.failure
            assert f"muster kind=check host={last.name} rank=- status=75" in host.failure
            assert "security group" in host.failure
            assert "begun" not in host.output


def test_a_dropped_port_may_be_gone_on_with(job):
    """MUSTER_CHECKS makes it a warning, for those who know better."""
    with Cluster(job(2, MUSTER_CHECKS="net.reach=warn")) as cluster:
        first, last = cluster.hosts
        cluster.start(last)
        drop_calls(last)
        cluster.start(first)
        assert [host.wait() for host in cluster.hosts] == [0, 0]
        assert "WARN    net.reach" in first.output


def test_a_wrong_interface_with_two_bridges(job):
    """Two hosts on two networks, each with an interface on another one: it is a warning that names both addresses."""
    with Cluster(job(2)) as cluster:
        cluster.start_on_two_networks(interfaces=("eth0", "eth1"))
        assert [host.wait() for host in cluster.hosts] == [0, 0]
        log = cluster.hosts[0].output
        assert "WARN    net.path" in log, log
        assert "; its eth1 has " in log or "; its eth0 has " in log


def test_another_torch_on_one_host(job, tmp_path):
    """The image is the same, and somebody has installed into it: both of two hosts are named."""
    other = tmp_path / "torch-0.9.dist-info"
    other.mkdir()
    with Cluster(job(2)) as cluster:
        first, last = cluster.hosts
        cluster.start_with(last, other, SITE)
        cluster.start(first)
        assert [host.wait() for host in cluster.hosts] == [75, 75]
        assert first.failure == last.failure
        assert first.failure.startswith("check software.same on algo-1: torch: 2.")
        assert ", 0.9 on algo-2" in first.failure


def test_efa_that_is_required(job):
    """A host without it ends the job, with the way to go on."""
    with Cluster(job(1, MUSTER_EFA="require")) as cluster:
        assert cluster.run() == [75]
        (host,) = cluster.hosts
        assert host.failure.startswith("check efa.devices on algo-1: 0 EFA devices")
        assert "MUSTER_EFA=off" in host.failure


LISTENING = """
from pathlib import Path

for name in ("tcp", "tcp6"):
    for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
        _, local, _, state, *_ = line.split()
        address, _, port = local.rpartition(":")
        # Docker's own name server is on the loopback.
        if state == "0A" and address != "0B00007F":
            print("open:", int(port, 16), flush=True)
print("looked", flush=True)
"""


def test_no_port_stays_open(job):
    """Once the ranks run, the first host has the channel's port, and the other none."""
    described = job(2)
    assert described.code is not None
    (described.code / "train.py").write_text(LISTENING, encoding="utf-8")
    with Cluster(described) as cluster:
        assert cluster.run() == [0, 0]
        first, last = (host.output for host in cluster.hosts)
        assert "looked" in first
        assert [line[-10:] for line in first.splitlines() if "open: " in line] == ["open: 7770"]
        assert "looked" in last
        assert "open: " not in last
