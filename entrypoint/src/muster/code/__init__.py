"""Stage 2: the user's code on disk, and the command that starts its entry point.

locate.py   where the code is, and which file is meant
entry.py    how a file of that kind is started
"""

from muster.code.locate import locate

__all__ = ["locate"]
