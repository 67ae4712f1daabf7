"""Keeps secrets out of what the harness writes: log lines, records, failure texts.

Pure, but for one switch of the whole process: MUSTER_MASK=0 shows everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

HIDDEN = "***"

_WORDS = "token|secret|passw|credential|api[_-]?key|access[_-]?key|private[_-]?key|auth"
_SECRET_KEY = re.compile(_WORDS, re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=://)[^/\s]+(?=@)")
_SECRET_MEMBER = re.compile(rf'("[^"]*(?:{_WORDS})[^"]*"\s*:\s*)"(?:[^"\\]|\\.)*"', re.IGNORECASE)

_on = True


def switch(*, on: bool) -> None:
    """Whether secrets are hidden from now on. Effects: for this process."""
    global _on  # noqa: PLW0603  (one process, one job)
    _on = on


def is_secret(key: str) -> bool:
    """Whether a value under this name is better not shown."""
    return bool(_SECRET_KEY.search(key))


def mask_text(text: str) -> str:
    """`text` without the user-info of URLs and the secret members of JSON objects in it."""
    if not _on:
        return text
    return _SECRET_MEMBER.sub(rf'\1"{HIDDEN}"', _USER_INFO.sub(HIDDEN, text))


def mask_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """`argv` with the values of secret options hidden: `--hf_token x` and `--hf_token=x`."""
    if not _on:
        return tuple(argv)
    shown: list[str] = []
    hide_next = False
    for argument in argv:
        if hide_next:
            # Whatever it looks like: a hyperparameter's value may begin with dashes too.
            shown.append(HIDDEN)
            hide_next = False
            continue
        name, equals, _ = argument.partition("=")
        secret = name.startswith("-") and is_secret(name)
        hide_next = secret and not equals
        shown.append(f"{name}={HIDDEN}" if secret and equals else _mask_argument(argument))
    return tuple(shown)


def _mask_argument(argument: str) -> str:
    """One argument; in a JSON object or list whatever a secret key holds, at any depth."""
    if argument[:1] in ("{", "["):
        try:
            hidden = _mask_members(json.loads(argument))
            return mask_text(json.dumps(hidden, ensure_ascii=False, separators=(",", ":")))
        except (ValueError, RecursionError):
            pass  # It only looked like JSON.
    return mask_text(argument)


def _mask_members(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: HIDDEN if is_secret(k) else _mask_members(v) for k, v in value.items()}
    return [_mask_members(item) for item in value] if isinstance(value, list) else value
