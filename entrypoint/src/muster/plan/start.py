"""What a launcher's command is made from. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muster.plan.facts import Facts
from muster.plan.mpi_options import MpiOptions
from muster.plan.topology import Topology


@dataclass(frozen=True)
class Start:
    """The ranks, this host, and what the user wants of the launcher."""

    topology: Topology
    facts: Facts
    master_addr: str
    addresses: Mapping[str, str]
    """Of hosts whose names don't resolve."""
    options: MpiOptions
    """What the user adds to mpirun."""
    controller: str
    """Horovod's: gloo or mpi."""
    inherited: Mapping[str, str]
    """The container's environment: what is set there is not set again."""

    @property
    def slots(self) -> tuple[tuple[str, int], ...]:
        """Each host of the world, as the launcher is to call it, and its ranks."""
        hosts = self.topology.hosts
        sizes = self.topology.nprocs or (self.topology.nproc,) * len(hosts)
        names = [self.addresses.get(host, host) for host in hosts]
        return tuple(zip(names, sizes, strict=True))

    def group_env(self) -> dict[str, str]:
        """What torch.distributed wants and only torchrun sets, but for the rank's own number."""
        return {
            "MASTER_ADDR": self.master_addr,
            "MASTER_PORT": str(self.facts.master_port),
            "WORLD_SIZE": str(self.topology.world_size),
            "LOCAL_WORLD_SIZE": str(self.topology.nproc),
        }
