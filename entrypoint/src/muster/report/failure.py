"""The text of /opt/ml/output/failure. Pure.

SageMaker shows the first 1024 characters of it as the job's FailureReason. So the
root cause is line 1, line 2 is for programs, line 3 says what to do where that is known, and
only then comes where it happened.
"""

from __future__ import annotations

from muster.model import Cause
from muster.report.traceback import CUT, user_frames

LIMIT = 1024
"""Bytes of the whole text. Bytes, not characters: nobody says which of them the platform counts."""

_HEADLINE = 320
_MORE = 200
_REMEDY = 240
_USER_TEXT = 400


def failure_text(cause: Cause, written_by_user: str = "") -> str:
    """At most LIMIT bytes of UTF-8.

    Args:
        cause: why the job failed.
        written_by_user: what the script itself wrote into the file; it stays first.
    """
    first, rest = _headline(cause.headline)
    own = [cut_end(first, _HEADLINE), machine_line(cause)]
    room = LIMIT - _size("\n".join(own)) - 4
    head = [cut_end(written_by_user.strip(), min(_USER_TEXT, room)), *own]
    remedy = cut_end(cause.remedy.strip(), min(_REMEDY, LIMIT - _size("\n".join(head)) - 4))
    more = cut_end(rest, min(_MORE, LIMIT - _size("\n".join([*head, remedy])) - 4))
    # The traceback ends with the message, which has been told: what is left is the place.
    place = user_frames(cause.detail.strip().removesuffix(cause.headline.strip()))
    room = LIMIT - _size("\n".join([*head, more, remedy])) - 4
    parts = [*head, remedy, more, cut_start(place.strip(), room)]
    return "\n".join(part for part in parts if part) + "\n"


def _headline(text: str) -> tuple[str, str]:
    """Line 1, and the rest of a message of several lines.

    `ImportError:` alone would say nothing: a message that begins on the next line is drawn up.
    """
    lines = [line.rstrip() for line in text.strip().splitlines() if line.strip()]
    if not lines:
        return "no reason is known", ""
    if lines[0].endswith(":") and len(lines) > 1:
        lines[:2] = [f"{lines[0]} {lines[1].strip()}"]
    return lines[0], "\n".join(lines[1:])


def machine_line(cause: Cause) -> str:
    """Line 2: `muster kind=… host=… rank=… status=…`."""
    rank = "-" if cause.rank is None else cause.rank
    return f"muster kind={cause.kind} host={cause.host} rank={rank} status={cause.status}"


def cut_end(text: str, limit: int) -> str:
    """`text` in at most `limit` bytes, its end cut."""
    if _size(text) <= limit:
        return text
    room = limit - _size(CUT)
    return _encode(text)[:room].decode("utf-8", "ignore") + CUT if room >= 0 else ""


def cut_start(text: str, limit: int) -> str:
    """The last whole lines of `text` in at most `limit` bytes; a `…` stands for the others."""
    lines = text.splitlines()
    if _size(text) <= limit:
        return text
    while lines and _size("\n".join([CUT, *lines])) > limit:
        del lines[0]
    return "\n".join([CUT, *lines]) if lines else ""


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _size(text: str) -> int:
    return len(_encode(text))
