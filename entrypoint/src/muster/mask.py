"""Keeps secrets out of what the harness writes: log lines, records, failure texts.

Pure, but for what the process as a whole knows: the values that `learn` was given, and the
switch by which MUSTER_MASK=0 shows everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

HIDDEN = "***"

_SECRET_WORDS = frozenset(
    [
        *("token", "tokens", "secret", "secrets", "password", "passwords", "passwd", "pass"),
        *("passphrase", "pwd", "credential", "credentials", "auth", "authorization", "apikey"),
        "pat",
    ]
)
_KEYS = frozenset(
    [
        "api",
        "access",
        "private",
        "secret",
        "signing",
        "encryption",
        "auth",
        "wandb",
        "hf",
        "openai",
        "aws",
    ]
)
"""What stands in front of `key` where the key is a secret: not `sort_key`."""
_TEXT_TOKENS = frozenset(
    [
        *("pad", "eos", "bos", "unk", "cls", "sep", "mask", "special", "stop", "start", "end"),
        *("text", "next", "max", "min", "num", "n", "new", "total", "per", "input", "output"),
        "prompt",
    ]
)
"""What stands in front of `token` where it is a piece of text: `pad_token`, `max_new_tokens`."""
_BOUNDARY = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")
_USER_INFO = re.compile(r"(?<=://)[^/\s]+(?=@)")
_MEMBER = re.compile(r'"(?P<key>(?:[^"\\]|\\.)*)"(?P<colon>\s*:\s*)"(?:[^"\\]|\\.)*"')
_KNOWN_FORMS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}"
    r"|sk-(?=[\w-]*\d)[\w-]{16,}|xox[abpr]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
"""Tokens that say what they are: Hugging Face, GitHub, OpenAI, Slack, AWS, JSON web tokens."""
_SHORTEST = 6
"""Characters of a value that is looked for in other texts: a shorter one would hit by chance."""
_TOKEN = 20
"""Characters of a user's name in a URL from which on it is a token."""
_EXPANDED = re.compile(r"\$\{(\w+)\}")
_NO_SECRETS = re.compile(r"true|false|none|null|[\d.]+", re.IGNORECASE)

_values: set[str] = set()
_on = True


def switch(*, on: bool) -> None:
    """Whether secrets are hidden from now on. Effects: for this process."""
    global _on  # noqa: PLW0603  (one process, one job)
    _on = on


def learn(pairs: Iterable[tuple[str, str]]) -> None:
    """Hides the values of secret names in every text from now on. Effects: for this process.

    A script that fails on an option prints its values; an exception may hold all of argv.
    """
    for key, value in pairs:
        if is_secret(key):
            learn_value(value.strip())


def learn_value(value: str) -> None:
    """Hides this text from now on. Effects: for this process."""
    if len(value) >= _SHORTEST and not _NO_SECRETS.fullmatch(value):
        _values.add(value)


def learn_urls(texts: Iterable[str], env: Mapping[str, str]) -> None:
    """Hides the credentials of the URLs in `texts` from now on. Effects: for this process.

    Args:
        texts: variables, lines of files.
        env: what `${NAME}` in them stands for.
    """
    for text in texts:
        whole = _EXPANDED.sub(lambda match: env.get(match[1], match[0]), text)
        for info in _USER_INFO.findall(whole):
            user, _, password = info.partition(":")
            # A token may stand in either place.
            for word in [password or user, *([user] if len(user) >= _TOKEN else [])]:
                learn_value(word)
                learn_value(unquote(word))


def is_secret(key: str) -> bool:
    """Whether a value under this name is better not shown: `hf_token`, `wandbApiKey`."""
    if key in ("PWD", "OLDPWD"):
        return False  # A shell's folder: on SageMaker the code's.
    words = [word.lower() for word in _BOUNDARY.split(key) if word]
    pairs = list(zip(["", *words], words, strict=False))
    return any(
        (word in _SECRET_WORDS and not (word[:5] == "token" and before in _TEXT_TOKENS))
        or (word == "key" and before in _KEYS)
        for before, word in pairs
    )


def mask_text(text: str) -> str:
    """`text` without its secrets.

    Those are the user-info of URLs, secret members of JSON objects, tokens of a known form, and
    the values that were learnt.
    """
    if not _on:
        return text
    shown = _MEMBER.sub(_hide_member, _USER_INFO.sub(HIDDEN, text))
    for value in sorted(_values, key=len, reverse=True):
        shown = shown.replace(value, HIDDEN)
    return _KNOWN_FORMS.sub(HIDDEN, shown)


def _hide_member(match: re.Match[str]) -> str:
    if not is_secret(match["key"]):
        return match[0]
    return f'"{match["key"]}"{match["colon"]}"{HIDDEN}"'


def mask_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """`argv` with the values of secret options hidden: `--hf_token x`, `hf_token=x`."""
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
        secret = is_secret(name) and (name.startswith("-") or bool(equals))
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
