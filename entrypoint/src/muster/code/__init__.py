"""Stage 2: the user's code on disk, and the command that starts its entry point.

sources.py  where code may be, in one order
s3.py       an archive on S3, fetched
unpack.py   an archive, whole and inside one folder
scratch.py  the folders for both
entry.py    how an entry point is started
locate.py   all of these together
config.py   hyperparameters from a file
"""

from muster.code.config import add_config
from muster.code.locate import locate
from muster.code.scratch import Scratch

__all__ = ["Scratch", "add_config", "locate"]
