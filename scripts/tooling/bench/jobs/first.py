"""The smallest job: one line."""

from __future__ import annotations

print("bench: first line", flush=True)
