"""Every way in which the harness itself can fail, with its status.

The table is a contract with the user: automation may key on it (docs/adr/0002).
A script's own status always passes through, so a script may also end with 70
to 78: the `kind` in the failure file's second line tells the two apart.
"""

from __future__ import annotations

from typing import ClassVar, Literal

Kind = Literal[
    "user",
    "signal",
    "contract",
    "code",
    "requirements",
    "plan",
    "rollcall",
    "check",
    "launch",
    "lost",
    "stalled",
]

STATUS_OF_KIND: dict[Kind, int] = {
    "contract": 70,
    "code": 71,
    "requirements": 72,
    "plan": 73,
    "rollcall": 74,
    "check": 75,
    "launch": 76,
    "lost": 77,
    "stalled": 78,
}
"""Statuses of the harness's own failures. `user` and `signal` have the script's own."""

SIGNAL_BASE = 128
"""A process that signal n ended has status 128 + n, as shells report it."""


class MusterError(Exception):
    """A failure that the harness found itself.

    Args:
        what: what is wrong, and where the wrong thing came from. One line.
        remedy: what the user can do about it. One line or a few, may be empty.
    """

    kind: ClassVar[Kind]

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    @property
    def status(self) -> int:
        """The exit status for this failure (see STATUS_OF_KIND)."""
        return STATUS_OF_KIND[self.kind]


class ContractError(MusterError):
    """SageMaker's files or variables can't be understood."""

    kind = "contract"


class CodeError(MusterError):
    """The user's script can't be found or fetched."""

    kind = "code"


class RequirementsError(MusterError):
    """What the job wants installed can't be."""

    kind = "requirements"


class PlanError(MusterError):
    """The job asks for something that can't be run here."""

    kind = "plan"


class RollCallError(MusterError):
    """The hosts of the job can't meet."""

    kind = "rollcall"


class CheckError(MusterError):
    """This host, or the job's hosts together, can't do what the job needs."""

    kind = "check"


class LaunchError(MusterError):
    """The launcher could not be started, or ended before any rank began."""

    kind = "launch"


class StopRequested(BaseException):
    """SIGTERM or SIGINT came before the ranks were started.

    A BaseException, so that no handler of ordinary errors on the way can swallow it.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum
