"""Stage four of the pipeline: what must be right before ranks are started.

finding.py   what a check is, and what it says
registry.py  all checks, and which of them a job gets
running.py   this host's, all at once, each with its time
table.py     the verdict over all hosts, and the leader's table
stage.py     the stage: begun early, concluded by all hosts together
host.py      what ranks need of the host: capacity.py limits.py room.py hostnames.py processes.py
storage.py   how fast channels can be read
interface.py exchange.py probing.py reached.py   the network: every host calls every other one
told.py compare.py alike.py                      what a comparison of hosts shows
efa.py efa_counters.py fabric.py nccl_log.py     EFA, its errors, and which network NCCL has picked
software.py packages.py libraries.py variables.py   versions, one NCCL, variables that do harm
collective/    ranks that add something up, once all else is well
device.py checkpoints.py  what ends a job before anything else is done
"""

from muster.check.checkpoints import look_at_checkpoints
from muster.check.collective import Ranks, after_plan
from muster.check.device import refuse_missing_gpu
from muster.check.finding import Result
from muster.check.running import Running
from muster.check.stage import begin, collectives, conclude

__all__ = [
    "Ranks",
    "Result",
    "Running",
    "after_plan",
    "begin",
    "collectives",
    "conclude",
    "look_at_checkpoints",
    "refuse_missing_gpu",
]
