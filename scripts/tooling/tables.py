"""Markdown tables, for the pages that are made."""

from __future__ import annotations

from collections.abc import Iterable


def table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table. Pure."""
    lines = [tuple(titles), *(tuple(row) for row in rows)]
    lines.insert(1, tuple("---" for _ in lines[0]))
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
