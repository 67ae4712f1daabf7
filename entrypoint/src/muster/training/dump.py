"""Shows where a Python process is, when the harness asks for it by a signal of its own.

Loaded by hook.py in every Python below a rank. Effects: a signal handler.
"""

from __future__ import annotations

import faulthandler
import signal

SIGNAL = signal.SIGRTMAX - 7
"""A real-time signal, which nobody else is known to use: SIGUSR1 and SIGUSR2 are the user's."""

_STDERR = 2


def show_stacks_on_request() -> None:
    """From now on SIGNAL makes this process print the stacks of all its threads on stderr."""
    if signal.getsignal(SIGNAL) == signal.SIG_DFL:
        faulthandler.register(SIGNAL, file=_STDERR, all_threads=True)
