"""`muster local`: several hosts on this machine, each a harness of its own, without AWS.

options.py      the command line (pure)
folders.py      each host's contract folder, as SageMaker would mount it
environment.py  each host's variables (pure, but for the count of processors)
backend.py      what a backend is (pure)
process.py      the backend whose hosts are processes
docker.py       the words of the docker command (pure)
container.py    the backend whose hosts are containers
run.py          starts the hosts by a backend and waits for them
summary.py      the table at the end
"""

from muster.local.command import local

__all__ = ["local"]
