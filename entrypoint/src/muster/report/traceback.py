"""A traceback made short enough to be read in 1024 bytes. Pure."""

from __future__ import annotations

import re

_FRAME = re.compile(r'^\s*File "(?P<path>[^"]*)", line \d+')
_MARKS = re.compile(r"^[\s~^]*$")
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen ")
CUT = "…"


def user_frames(text: str) -> str:
    """`text` without the marks below code, and without frames of libraries but the last.

    An error inside torch has twenty frames of torch's; the one line that the user can change
    is further up. Text without frames is returned as it is; a `…` stands where frames were cut.
    """
    head, frames = _split(text)
    if not any(_is_users(frame) for frame in frames):
        return text
    lines = list(head)
    for i, frame in enumerate(frames):
        if _is_users(frame) or i == len(frames) - 1:
            lines += frame
        elif lines[-1:] != [CUT]:
            lines.append(CUT)
    return "\n".join(lines)


def _split(text: str) -> tuple[list[str], list[list[str]]]:
    """The lines before the first frame, and each frame with what stands below it."""
    head: list[str] = []
    frames: list[list[str]] = []
    for line in text.splitlines():
        if _FRAME.match(line):
            frames.append([line])
        elif frames and not _MARKS.match(line):
            frames[-1].append(line)
        elif not frames:
            head.append(line)
    return head, frames


def _is_users(frame: list[str]) -> bool:
    match = _FRAME.match(frame[0])
    return match is not None and not any(part in match["path"] for part in _LIBRARIES)
