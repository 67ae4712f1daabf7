"""The last checks: ranks that add something up before the script does.

stage.py     the steps, each agreed on by all hosts
book.py      who takes part, and what is left out
measures.py  what this host's ranks do, in which worlds
worlds.py    their processes
judging.py   what the figures come to (pure)
pairs.py     which host it is (pure)
rows.py      the checks, for the page
"""

from muster.check.collective.rows import CHECKS
from muster.check.collective.stage import after_plan
from muster.check.collective.worlds import Ranks

__all__ = ["CHECKS", "Ranks", "after_plan"]
