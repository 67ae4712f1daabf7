"""Stage four of the pipeline: what must be right before ranks are started."""

from muster.check.device import refuse_missing_gpu

__all__ = ["refuse_missing_gpu"]
