"""Ends as its first argument says, after it has used the device."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.ones(1000, device=device).sum().item()
how = sys.argv[1]
if how == "raise":
    raise ValueError("bad label 7")
if how == "exit":
    raise SystemExit(7)
if how == "memory":
    torch.empty(2**50, dtype=torch.uint8, device=device)
if how == "stop":
    model = Path(os.environ["SM_MODEL_DIR"])

    def save(*_: object) -> None:
        """Save, and end well."""
        (model / "saved").touch()
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, save)
    (model / "started").touch()
    time.sleep(60)
