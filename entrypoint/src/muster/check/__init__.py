"""Stage four of the pipeline: what must be right before ranks are started."""

from muster.check.checkpoints import look_at_checkpoints
from muster.check.device import refuse_missing_gpu

__all__ = ["look_at_checkpoints", "refuse_missing_gpu"]
