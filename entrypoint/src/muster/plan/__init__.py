"""Stage 3: what each host will run, decided without running anything.

facts.py        the few things a plan must look up on this host (the only impure module)
reserved.py     what each reserved hyperparameter means here
topology.py     hosts, ranks, world size
environment.py  the variables of the launcher and of the ranks
torchrun.py plain.py    one module a launcher: a pure function to an argv
decide.py       the launcher, its ranks, where they meet
notes.py        what the log says of that
build.py        all of it together
"""

from muster.plan.build import make_plan
from muster.plan.environment import handed_on
from muster.plan.facts import Facts, look_up_facts
from muster.plan.reserved import review

__all__ = ["Facts", "handed_on", "look_up_facts", "make_plan", "review"]
