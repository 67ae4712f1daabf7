"""What to do about a difference between hosts: the same words in the log and on the page. Pure."""

from __future__ import annotations

OPEN = (
    "The security group, or the firewall, of the hosts must let all their traffic to each other through, on every port; "
    "the interface must be the one between them."
)
TWO_NETWORKS = (
    "The hosts have several networks: set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME, alike on all hosts, to the interface "
    "of the one between them."
)
ONE_ADDRESS = "Each host needs an address of its own: look at the networks of the containers."
MTU = "Set one MTU on all hosts; Docker's networks have the option com.docker.network.driver.mtu."
CLOCKS = "AWS's own hosts keep their clocks: look at chrony there, or give the host back."
NAMES = "Set NCCL_HOSTID to another text on each host, such as its name in the job."
SAME_SOFTWARE = "All hosts need the same image, and the same packages installed into it."
SAME_MACHINES = (
    "Give the host that differs back: an instance has lost devices, or the group has two types."
)
