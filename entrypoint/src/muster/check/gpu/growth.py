"""What NVLinks have had to repeat while ranks talked to each other: two looks, and what lies between them.

Effects: `snapshot` starts the probe where there is a GPU; `grown` is pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.check.finding import Finding, Here
from muster.check.gpu.limits import TIMEOUT_S
from muster.check.gpu.presence import absence

if TYPE_CHECKING:
    from muster.check.gpu.asking import Look

_ASKED = ("name", "uuid", "bus", "mig", "link_errors")
"""What the counters are, and which GPUs the job uses."""


def snapshot(here: Here, timeout_s: float = TIMEOUT_S) -> Look | Finding:
    """The links' counters of this host, as they are now; a SKIP on hosts without a GPU, which start nothing."""
    missing = absence(here)
    if missing:
        return missing
    from muster.check.gpu.asking import PROBE, ask  # noqa: PLC0415  (5 ms, where there is a GPU)

    return ask(here, (*PROBE, *_ASKED), timeout_s)


def grown(before: Look | Finding, after: Look | Finding, seconds: float) -> Finding:
    """What has grown on any GPU that the job uses.

    Args:
        before: the first look.
        after: the second.
        seconds: between them.
    """
    for look in (before, after):
        if isinstance(look, Finding):
            return look
    from muster.check.gpu.links import links_grown  # noqa: PLC0415  (as above)

    assert not isinstance(before, Finding)
    assert not isinstance(after, Finding)
    return links_grown(before, after, seconds)
