"""torchrun inside a rank: each rank would start a world of its own, and they would fight for port and GPUs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_MODULES = ("torch.distributed.run", "torch.distributed.launch")


def refuse_nested_launcher() -> None:
    """Ends this Python where it is torchrun, and one of several ranks that a launcher has started.

    Raises:
        SystemExit: with what to do instead, which becomes the rank's last line and the job's reason.
    """
    launcher = os.environ.get("MUSTER_RANKS")
    if not launcher or os.environ.get("WORLD_SIZE") == "1" or not is_torchrun(sys.orig_argv):
        return
    raise SystemExit(
        f"torchrun inside a rank: {launcher} has started the ranks already. Name the training script "
        "itself, or set MUSTER_LAUNCHER=cluster for a script that brings its own launcher."
    )


def is_torchrun(argv: Sequence[str]) -> bool:
    """Whether a Python with this command line is torchrun. Pure."""
    words = list(argv[1:])
    while words and words[0].startswith("-") and words[0] != "-m":
        del words[0]
    if words[:1] == ["-m"]:
        return words[1:2] != [] and words[1] in _MODULES
    return bool(words) and os.path.basename(words[0]) == "torchrun"
