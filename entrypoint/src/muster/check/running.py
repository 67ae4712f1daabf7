"""Runs the checks of one host, each with its time. Effects: threads; those of the checks."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from muster.check.finding import Check, Finding, Here, Result, unknown
from muster.errors import CheckError

EVIDENCE_LIMIT, REMEDY_LIMIT = 400, 400
"""Characters."""


class Running:
    """Checks that have begun, all at once.

    Args:
        checks: which.
        here: what they look at.
        severities: by name, what a user makes of a WARN or FAIL: warn or fail.
    """

    def __init__(self, checks: Sequence[Check], here: Here, severities: Mapping[str, str]) -> None:
        self.here = here
        self.together = tuple(check.name for check in checks if check.together)
        """What is not found out here alone."""
        checks = [check for check in checks if not check.together]
        self.level = here.level if checks else "off"
        self.collectives = ""
        """How much the ranks are to add up on all hosts, known once they have concluded: nothing, fast or full."""
        self.later: dict[str, Result] = {}
        """By name, what is found out after that."""
        self._severities = severities
        self._found: dict[str, tuple[Finding, float]] = {}
        self._done = threading.Condition()
        self._began = time.monotonic()
        self._checks = checks
        for check in checks:
            run = self._runner(check, here)
            threading.Thread(target=run, daemon=True, name=check.name).start()

    def results(self) -> tuple[Result, ...]:
        """What they have found. Waits for those that still have time; the others are UNKNOWN."""
        return tuple(self._result(check) for check in self._checks)

    def so_far(self) -> tuple[Result, ...]:
        """What they have found by now, and those whose time is over. Waits for nothing."""
        spent = time.monotonic() - self._began
        with self._done:
            known = set(self._found)
        return tuple(self.later.values()) + tuple(
            self._result(check)
            for check in self._checks
            if check.name in known or spent >= check.timeout_s
        )

    def _runner(self, check: Check, here: Here) -> Callable[[], None]:
        def run() -> None:
            finding = _look(check, here)
            with self._done:
                self._found[check.name] = finding, time.monotonic() - self._began
                self._done.notify_all()

        return run

    def _result(self, check: Check) -> Result:
        deadline = self._began + check.timeout_s
        with self._done:
            while check.name not in self._found:
                left = deadline - time.monotonic()
                if left <= 0 or not self._done.wait(left):
                    break
            late = unknown(f"it has not answered within {check.timeout_s:g} s"), check.timeout_s
            finding, seconds = self._found.get(check.name, late)
        evidence, remedy = finding.evidence[:EVIDENCE_LIMIT], finding.remedy[:REMEDY_LIMIT]
        found = Result(check.name, finding.status, evidence, remedy, seconds)
        return weighed(found, self._severities)


def weighed(result: Result, severities: Mapping[str, str]) -> Result:
    """A result with the severity that the user gives it. Pure."""
    wanted = severities.get(result.name)
    if not wanted or result.status not in ("WARN", "FAIL"):
        return result
    return dataclasses.replace(result, status="FAIL" if wanted == "fail" else "WARN")


def _look(check: Check, here: Here) -> Finding:
    try:
        return check.look(here)
    except CheckError as error:
        return Finding("FAIL", error.what, error.remedy)
    except Exception as error:  # noqa: BLE001  (a check that breaks must not end a job)
        return unknown(f"{type(error).__name__}: {error}")
