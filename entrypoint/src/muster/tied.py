"""A program that ends with who has started it: `python tied.py PID COMMAND…`, where PID is the starter's.

The kernel kills it when the starter has gone, by whatever: nobody would be left to end it. What is asked of the kernel
here holds for the command, too, which takes this process's place.

Effects: a parent-death signal; becomes the command. Standard library only: it is started by its path.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

_PR_SET_PDEATHSIG = 1
_ALONE = 1


def command(words: Sequence[str]) -> list[str]:
    """The command, tied to this process and to the thread that starts it. Its program is a path."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *words]


def main(words: Sequence[str]) -> NoReturn:
    """Becomes the command, unless the starter has gone by now."""
    parent, *command = words
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        os._exit(_ALONE)  # It had gone before the request above was in force.
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
