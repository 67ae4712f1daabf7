"""The text of /opt/ml/output/failure. Pure.

SageMaker shows the first 1024 characters of it as the job's FailureReason. So the
root cause is line 1, line 2 is for programs, and only then comes where and what to do.
"""

from __future__ import annotations

from muster.model import Cause

LIMIT = 1024
"""Bytes of the whole text. Bytes, not characters: nobody says which of them the platform counts."""

_HEADLINE = 320
_REMEDY = 240
_USER_TEXT = 512
_CUT = "…"


def failure_text(cause: Cause, written_by_user: str = "") -> str:
    """At most LIMIT bytes of UTF-8.

    Args:
        cause: why the job failed.
        written_by_user: what the script itself wrote into the file; it stays first.
    """
    head = [cut_end(written_by_user.strip(), _USER_TEXT)] if written_by_user.strip() else []
    first = cause.headline.strip().splitlines() or ["no reason is known"]
    head += [cut_end(first[0], _HEADLINE), machine_line(cause)]
    remedy = cut_end(cause.remedy.strip(), _REMEDY)
    room = LIMIT - _size("\n".join([*head, remedy])) - 2
    detail = cut_start(cause.detail.strip(), room)
    if detail == first[0]:
        detail = ""
    return "\n".join(part for part in [*head, detail, remedy] if part) + "\n"


def machine_line(cause: Cause) -> str:
    """Line 2: `muster kind=… host=… rank=… status=…`."""
    rank = "-" if cause.rank is None else cause.rank
    return f"muster kind={cause.kind} host={cause.host} rank={rank} status={cause.status}"


def cut_end(text: str, limit: int) -> str:
    """`text` in at most `limit` bytes, its end cut."""
    if _size(text) <= limit:
        return text
    return _encode(text)[: max(0, limit - _size(_CUT))].decode("utf-8", "ignore") + _CUT


def cut_start(text: str, limit: int) -> str:
    """The last whole lines of `text` in at most `limit` bytes."""
    kept: list[str] = []
    for line in reversed(text.splitlines()):
        if _size("\n".join([line, *kept])) > limit:
            break
        kept.insert(0, line)
    return "\n".join(kept)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _size(text: str) -> int:
    return len(_encode(text))
