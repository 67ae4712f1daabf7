"""Writes down an uncaught exception, so that the failure's reason is exact.

Loaded by muster.pth in every Python that a rank starts. The harness would otherwise
have to guess the reason from stderr, where ranks, warnings and launchers mix. The
record counts only if the rank then fails.

Effects: sets sys.excepthook, sys.exit and a signal's handler; writes one file when the
interpreter dies of an exception.
"""

from __future__ import annotations

import atexit
import os
import sys
from types import TracebackType

from muster.training.dump import show_stacks_on_request
from muster.training.gloo import let_threads_finish
from muster.training.nested import refuse_nested_launcher

_FOLDER = os.environ.get("MUSTER_ERROR_DIR", "")
_STATUSES = 256
_LIMIT = 8000
"""Characters of the message and of the traceback's end that are kept. The failure file has 1024."""


def install() -> None:
    """Puts the hook in front of the present sys.excepthook.

    Not in multiprocessing's own processes: a worker's exception reaches its parent,
    and is the parent's to raise.
    """
    if not _FOLDER or any(a.startswith("from multiprocessing") for a in sys.orig_argv):
        return
    refuse_nested_launcher()
    show_stacks_on_request()
    # Registered first of all, so called last of all.
    atexit.register(let_threads_finish)
    pid = os.getpid()
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _record(error, pid)
        previous(kind, error, trace)

    sys.excepthook = hook
    sys.exit = _exit  # type: ignore[assignment]  # it never returns
    # A library may put its own hook in place of this one: sys.last_value is still set.
    atexit.register(_record_last, pid)


def _exit(status: object = None, /) -> None:
    """sys.exit, but for one case: 256 is 0 to the system, and a failed job would look good."""
    multiple = isinstance(status, int) and status and status % _STATUSES == 0
    raise SystemExit(1 if multiple else status)


def _record_last(pid: int) -> None:
    error = getattr(sys, "last_value", None)
    if isinstance(error, BaseException):
        _record(error, pid)


def _record(error: BaseException, pid: int) -> None:
    # A forked child has inherited the hook, but is not the process that it speaks for.
    path = os.path.join(_FOLDER, f"{pid}.error.json")
    if os.getpid() != pid or os.path.exists(path) or not isinstance(error, Exception):
        return
    import json  # noqa: PLC0415  (only now: this module is loaded by every Python below a rank)
    import time  # noqa: PLC0415
    import traceback  # noqa: PLC0415

    try:
        text = "".join(traceback.format_exception(error))
        kind = type(error)
        plain = kind.__module__ in ("builtins", "__main__")
        record = {
            "type": kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}",
            "message": _message(error)[:_LIMIT],
            "traceback": text[-_LIMIT:],
            "time": time.time(),
            "pid": pid,
            "ppid": os.getppid(),
        }
        with open(f"{path}.new", "w", encoding="utf-8", errors="replace") as file:
            json.dump(record, file)
        os.replace(f"{path}.new", path)
    except Exception:  # noqa: BLE001, S110  (the script's own error must be shown, whatever happens here)
        pass


def _message(error: Exception) -> str:
    """What the error says, with its notes. A text that can't be made is none."""
    try:
        # A SyntaxError's own text ends with the file and line, which the traceback has.
        text = str(error.msg if isinstance(error, SyntaxError) else error)
        return "\n".join([text, *map(str, getattr(error, "__notes__", ()))])
    except Exception:  # noqa: BLE001  (the user's __str__ may do anything)
        return ""


install()
