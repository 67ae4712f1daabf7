"""Keeps secrets out of what the harness writes: log lines, records, failure texts. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = "***"

_SECRET_KEY = re.compile(
    r"token|secret|passw|credential|api_?key|access_?key|private_?key|auth", re.IGNORECASE
)
_USER_INFO = re.compile(r"(?<=://)[^/\s@]+(?=@)")


def is_secret(key: str) -> bool:
    """Whether a value under this name is better not shown."""
    return bool(_SECRET_KEY.search(key.replace("-", "_")))


def mask_text(text: str) -> str:
    """`text` without the user-info of URLs in it."""
    return _USER_INFO.sub(HIDDEN, text)


def mask_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """`argv` with the values of secret options hidden: `--hf_token x` and `--hf_token=x`."""
    shown: list[str] = []
    hide_next = False
    for argument in argv:
        if hide_next and not argument.startswith("--"):
            shown.append(HIDDEN)
            hide_next = False
            continue
        name, equals, _ = argument.partition("=")
        secret = name.startswith("-") and is_secret(name)
        hide_next = secret and not equals
        shown.append(f"{name}={HIDDEN}" if secret and equals else mask_text(argument))
    return tuple(shown)
