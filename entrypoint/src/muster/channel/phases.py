"""How far a job has come, and the times that its leader goes by."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Phase(enum.IntEnum):
    """How far the job has come."""

    GATHER = 0
    PREPARE = 1
    RUN = 2
    END = 3
    LEAVE = 4


@dataclass(frozen=True)
class Limits:
    """What a coordinator goes by, in seconds."""

    rollcall: float = 900.0
    """For all hosts to join."""
    settle: float = 1.0
    """For an earlier cause to come in, after a failure."""
    echo: float = 2.0
    """The same after one that speaks of another."""
    straggle: float = 600.0
    """For the last ranks to end after some have; 0 for ever."""
    ending: float = 20.0
    """For all hosts to end their ranks and report, after the verdict."""
