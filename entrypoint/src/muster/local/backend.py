"""What `muster local` asks of a backend: hosts that can be started, asked to end, and killed.

A backend is a module with the two functions of `Backend`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Protocol

from muster.launch.streams import LogPump
from muster.local.folders import LocalHost
from muster.local.options import Options


class BackendError(Exception):
    """The backend can't be used on this machine, or not with these options.

    Args:
        what: what is wrong. One line.
        remedy: what the user can do about it. May be empty.
    """

    status: ClassVar[int] = 2
    """That of a wrong command line: another one helps."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy


@dataclass(frozen=True)
class HostEnd:
    """How one host ended."""

    host: LocalHost
    status: int
    seconds: float
    stopped: bool
    """Whether we ended it because another one had failed."""
    asked: int = 0
    """The signal by which `muster local` itself was asked to stop before that; 0 for none."""


class HostRun(Protocol):
    """One host's harness while it runs."""

    @property
    def host(self) -> LocalHost: ...

    def poll(self) -> int | None:
        """Its exit status, None while it runs. SIGCHLD tells when to ask."""
        ...

    def stop(self, number: int, /) -> None:
        """Asks it to end, where the backend can by the signal `number`."""
        ...

    def kill(self) -> None:
        """Ends it at once."""
        ...


class Backend(Protocol):
    """The two functions of a backend's module."""

    def check(self, options: Options, env: Mapping[str, str]) -> None:
        """Looks whether the backend can be used, before any file is written.

        Raises:
            BackendError: it can't.
        """
        ...

    def start(
        self, options: Options, hosts: Sequence[LocalHost], env: Mapping[str, str], pump: LogPump
    ) -> AbstractContextManager[Sequence[HostRun]]:
        """Starts all hosts, their output on `pump`. The end removes what was made for them.

        Raises:
            BackendError: one can't be started; nothing is left of the others.
        """
        ...
