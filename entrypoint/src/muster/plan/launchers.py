"""The launchers of this version, in one table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from muster.plan import cluster, horovodrun, mpirun, plain, torchrun
from muster.plan.start import Start


def _nothing(_start: Start) -> dict[str, str]:
    return {}


def _no_text(_start: Start) -> str:
    return ""


@dataclass(frozen=True)
class Launcher:
    """What is different from one launcher to the next."""

    command: Callable[[Start], tuple[str, ...]]
    """The argv in front of the script."""
    env: Callable[[Start], dict[str, str]] = _nothing
    """Variables for it and all below it, on every host."""
    rank_env: Callable[[Start], dict[str, str]] = _nothing
    """Variables that the harness of each host gives to its ranks."""
    hostfile: Callable[[Start], str] = _no_text
    """The text of a hostfile, where the script wants one."""
    kept: Callable[[Mapping[str, str]], tuple[str, ...]] | None = None
    """Which of the container's variables it gets; None for all."""
    one_a_host: bool = False
    """Whether it starts one process a host, whatever the ranks are."""
    from_one_host: bool = False
    """Whether it runs on the world's first host and starts the others' ranks. Each host tells its
    ranks what to run: it knows its own paths, and no argument is on a command line for all."""
    meets: bool = True
    """Whether its ranks meet at MASTER_PORT."""


BUILT: dict[str, Launcher] = {
    "torchrun": Launcher(torchrun.command),
    "mpirun": Launcher(
        mpirun.command, env=mpirun.environment, rank_env=Start.group_env, from_one_host=True
    ),
    "horovodrun": Launcher(
        horovodrun.command,
        env=horovodrun.environment,
        rank_env=Start.group_env,
        kept=horovodrun.kept,
        from_one_host=True,
    ),
    "cluster": Launcher(
        cluster.command,
        env=mpirun.as_root,  # the script may call mpirun itself
        rank_env=cluster.environment,
        hostfile=cluster.hostfile,
        one_a_host=True,
    ),
    "plain": Launcher(plain.command, one_a_host=True, meets=False),
}
