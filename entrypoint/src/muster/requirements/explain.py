"""What an installer has printed, as one clear error. Pure.

Texts of pip 23 to 26 and of uv; what no reader knows is told by the installer's own last lines.
"""

from __future__ import annotations

import re
import signal

from muster.errors import RequirementsError
from muster.requirements import building, network, resolving
from muster.requirements.ended import Ended, Told

_LINE = re.compile(
    r"^\s*(?:ERROR|error|fatal|cause|\u00d7|╰─[>▶])[:\s]\s*(?P<text>\S.*)$", re.MULTILINE
)
_EMPTY_WORDS = re.compile(
    r"subprocess-exited-with-error|See above for|ResolutionImpossible|\[\d+ lines"
)
_LAST = 3
_READERS = (
    *network.READERS,
    *resolving.READERS,
    *building.READERS,
)

_OF_THE_INDEX = (*network.READERS, resolving.no_version)


def explain(end: Ended) -> RequirementsError:
    """The error that ends the job."""
    for reader in (_killed, *_READERS):
        if told := reader(end):
            break
    else:
        told = _last_words(end)
    what, remedy = told
    if end.empty_wheels and reader in _OF_THE_INDEX:
        # Whoever has such a folder did not mean an index to be asked.
        what = f"wheels/ is empty: nothing can be installed from it, and {what}"
    where = f"All that {end.tool} has said: {end.log}" if end.log else ""
    whole = what if end.label in what else f"{end.label}: {what}"
    return RequirementsError(whole, "\n".join(filter(None, (remedy, where))))


def _killed(end: Ended) -> Told | None:
    if end.gave_up or end.status >= 0:
        return None
    less = "The kernel kills so when memory runs out: a larger instance, or a wheel in wheels/."
    remedy = less if -end.status == signal.SIGKILL else ""
    return f"{end.tool} was killed by {signal.Signals(-end.status).name}", remedy


def _last_words(end: Ended) -> Told:
    said = [match["text"].strip() for match in _LINE.finditer(end.output)]
    telling = [line for line in said if not _EMPTY_WORDS.search(line)]
    lines = telling or [line.strip() for line in end.output.splitlines() if line.strip()]
    last = "\n".join(lines[-_LAST:]) or "it has said nothing"
    return f"{end.tool} ended with status {end.status}: {last}", ""
