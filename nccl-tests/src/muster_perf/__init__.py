"""nccl-tests' commands over torch.distributed, for every backend.

flags.py       the command line (pure)
operations.py  the collectives in one table (pure)
sizes.py       bytes to elements (pure)
values.py      what is sent and what must come of it (pure)
table.py       the text of the table (pure)
world.py       the ranks, under any launcher
calls.py       buffers and calls of torch.distributed
verify.py      fills buffers, counts what is wrong
measure.py     times and checks one size
results.py     the results as JSON
byhost.py      the rates between hosts
baselines.py   what a collective should reach
burn.py        the same product again and again: a device that computes wrongly
hvd.py         an all-reduce by Horovod's own operations
run.py         all of these together
commands.py    the programs
"""

from muster_perf.baselines import Expectation, expect
from muster_perf.errors import PerfError

__all__ = ["Expectation", "PerfError", "expect"]
__version__ = "0.1.0"
