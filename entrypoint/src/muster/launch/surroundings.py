"""The environments of one host: the launcher's, the ranks', and that of programs started for other hosts.

Effects: files in the private folder: a hostfile, `ssh` where the installation brings none.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping

from muster.launch import agreement, protocol
from muster.launch.ranks import Orders
from muster.launch.spill import spill
from muster.model import Plan

_HOSTFILE = "MUSTER_HOSTFILE"
"""The variable with the path of the hostfile."""
_SSH = f'#!/bin/sh\nexec {sys.executable} -I -m muster.launch.rsh "$@"\n'
_NAMES = ("ssh", "rsh")


class Surroundings:
    """What runs where with which variables.

    Args:
        plan: of this host.
        inherited: the container's environment.
        folder: a private one.
    """

    def __init__(self, plan: Plan, inherited: Mapping[str, str], folder: str) -> None:
        self._plan = plan
        self._inherited = inherited
        self._folder = folder
        self._path = inherited.get("PATH", os.defpath)
        if plan.remote:
            self._path = f"{_ssh_folder(folder)}:{self._path}"

    def launcher(self, ranks: str, remote: str) -> dict[str, str]:
        """The launcher's own.

        Args:
            ranks: the path of the ranks' socket.
            remote: the path of remote start's socket.
        """
        plan = self._plan
        given = self._inherited
        if plan.kept is not None:
            given = {name: value for name, value in given.items() if name in plan.kept}
        env = {**given, **plan.env, protocol.SOCKET_VARIABLE: ranks}
        return {**env, "PATH": self._path, protocol.RSH_VARIABLE: remote} if plan.remote else env

    def remote(self, ranks: str) -> dict[str, str]:
        """Of what is started here for another host: this host's own, whatever that one sends along."""
        env = {**self._inherited, **self._plan.env, "PATH": self._path}
        # What a script's own launcher starts is a rank; a daemon of mpirun starts ranks of ours.
        env |= self._rank_env() if self._plan.hostfile else {}
        return {**env, protocol.HERE_VARIABLE: ranks}

    def orders(self) -> Orders:
        """What each rank is told."""
        plan = self._plan
        return Orders(
            env=self._rank_env(),
            only_rank=0 if plan.shared else plan.node_rank,
            argv=plan.rank_argv,
            cwd=plan.cwd if plan.rank_argv else "",
        )

    @functools.cache  # noqa: B019  (one object a run)
    def _rank_env(self) -> dict[str, str]:
        plan = self._plan
        env = {**plan.rank_env, protocol.AGREE_VARIABLE: agreement.address(self._folder)}
        if plan.rank_argv:
            # The launcher's `ssh` is the launcher's, and what it wasn't given the ranks get from here.
            kept = plan.kept if plan.kept is not None else self._inherited
            env |= {name: self._inherited[name] for name in self._inherited if name not in kept}
            env["PATH"] = self._inherited.get("PATH", os.defpath)
            # mpirun puts its own folder in front, often /usr/lib: other versions of the user's libraries.
            if path := self._inherited.get("LD_LIBRARY_PATH"):
                env["LD_LIBRARY_PATH"] = path
        if plan.hostfile:
            env |= {_HOSTFILE: self._write("hostfile", plan.hostfile)}
            env |= {protocol.RSH_VARIABLE: os.path.join(self._folder, "rsh.sock")}
        return spill(env, lambda: self._folder)

    def _write(self, name: str, text: str) -> str:
        path = os.path.join(self._folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


def _ssh_folder(folder: str) -> str:
    """A folder with programs called ssh and rsh; the image's own, as /tmp may forbid programs."""
    ready = os.path.join(sys.prefix, "libexec", "muster")
    if os.path.exists(os.path.join(ready, _NAMES[0])):
        return ready
    made = os.path.join(folder, "bin")
    os.mkdir(made)
    for name in _NAMES:
        path = os.path.join(made, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(_SSH)
        os.chmod(path, 0o700)
    return made
