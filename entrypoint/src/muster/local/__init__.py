"""`muster local`: several hosts on this machine, each a harness of its own, without Docker.

options.py   the command line (pure)
folders.py   each host's contract folder, as SageMaker would mount it
process.py   starts the hosts and waits for them
summary.py   the table at the end
"""

from muster.local.command import local

__all__ = ["local"]
