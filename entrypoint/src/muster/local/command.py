"""`muster local` from end to end. Effects: folders, output, those of a backend."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence

from muster.errors import MusterError
from muster.local.backend import Backend, BackendError
from muster.local.options import parse

_USAGE = 2


def local(words: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs the job; the status is that of the first host that failed, else 0."""
    options = parse(words)
    if not sys.platform.startswith("linux"):
        # Subreapers, parent-death signals, 127.0.0.x: the harness needs Linux's.
        print("muster local runs on Linux and in WSL2, not here.", file=sys.stderr)
        return _USAGE
    try:
        from muster.local.summary import print_summary  # noqa: PLC0415  (needs rich, an extra)
    except ImportError:
        print("muster local needs rich: pip install rich", file=sys.stderr)
        return _USAGE
    from muster.local.folders import make_hosts  # noqa: PLC0415
    from muster.local.run import run_hosts  # noqa: PLC0415

    # The job's name is the folder's: two jobs of one second keep apart by the pid.
    name = time.strftime("local-%Y%m%d-%H%M%S") + f"-{os.getpid()}"
    folder = os.path.abspath(os.path.join(options.out, name))
    try:
        backend = _backend(options.backend)
        backend.check(options, env)
        ends = run_hosts(backend, options, make_hosts(options, folder), env)
    except (MusterError, BackendError) as error:
        print("\n".join(filter(None, [f"muster: {error.what}", error.remedy])), file=sys.stderr)
        return error.status
    print_summary(ends, folder)
    failed = [end for end in ends if end.status]
    first = min(failed, key=lambda end: (end.stopped, end.seconds), default=None)
    return first.status if first else 0


def _backend(name: str) -> Backend:
    from muster.local import container, process  # noqa: PLC0415

    return {"docker": container, "process": process}[name]
