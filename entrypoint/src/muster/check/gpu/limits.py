"""The numbers by which GPUs are judged. rows.py says where each comes from."""

from __future__ import annotations

TIMEOUT_S = 20.0
"""A driver that isn't kept loaded takes some seconds a GPU to begin."""
CHECK_S = TIMEOUT_S + 4
"""What a check that uses the look may take."""
CORRECTED = 20_000_000
ROWS = 512
PAGES = 60
MARGIN = 5
"""Degrees Celsius."""
LINK_ERRORS = 5
CRC_A_SECOND = 100
USED = 512 * 2**20
"""Bytes."""
MEMORY_WAIT_S, MEMORY_PAUSE_S = 30.0, 2.0
"""How long an earlier job's processes have to end, and the time between two looks."""
