"""What a program can be given: an argument, a variable, a file's name. Pure."""

from __future__ import annotations

from muster.errors import ContractError


def refuse_unexportable(what: str, text: str, remedy: str) -> None:
    """Refuses text with a NUL byte or half a surrogate pair in it.

    JSON can hold both; neither the kernel nor UTF-8 can.

    Args:
        what: what the text is, for the message, which leaves the text out: it may be a secret.
        text: the text.
        remedy: what to do instead.

    Raises:
        ContractError: it can't be handed on.
    """
    try:
        carried = text.encode()
    except UnicodeEncodeError:
        raise ContractError(
            f"{what} holds half a surrogate pair, which is no text", remedy
        ) from None
    if b"\0" in carried:
        raise ContractError(f"{what} holds a NUL byte, which no program can be given", remedy)
