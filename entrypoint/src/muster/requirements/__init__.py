"""Between code and plan: what the job's code asks for is installed, once a host, before any rank begins.

request.py        what is asked for: a requirements file, a project, a folder of wheels
probe.py          what the user's Python holds and what would change (run by that Python)
packages.py       versions (pure)
codeartifact.py   an index with a token (network)
installer.py      pip or uv as argv and environment (pure)
programs.py       runs them, and ends them with the job
watch.py          progress, and an end where nobody answers
explain.py        what an installer has printed, as one error (pure), by network.py, resolving.py, building.py, git.py
install.py        the order of things
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from muster.model import Code, Job, file_part
from muster.requirements.programs import Programs
from muster.requirements.request import look
from muster.settings import Settings

__all__ = ["announced", "installing"]


@contextmanager
def installing(
    job: Job, code: Code, settings: Settings, env: Mapping[str, str]
) -> Iterator[Callable[[], Code]]:
    """A function that installs what `code` asks for, as `install.install`; leaving ends what it has started.

    It may run in another thread, and be left to itself there: the job can end at any moment.
    """
    programs = Programs()
    record = os.path.join(job.paths.record, file_part(job.current_host))

    def run() -> Code:
        if look(code, settings) is None:
            return code
        from muster.requirements.install import install  # noqa: PLC0415  (20 ms, for jobs that ask for it)

        return install(code, settings, env, record, programs)

    try:
        yield run
    finally:
        programs.end()


def announced(code: Code, settings: Settings, env: Mapping[str, str]) -> Code:
    """`code` with a note on what would be installed.

    Raises:
        RequirementsError: it would change torch, or a file isn't there: the job would end with it.
    """
    if look(code, settings) is None:
        return code
    from muster.requirements.install import foresee  # noqa: PLC0415  (for jobs that ask for something)

    note = foresee(code, settings, env)
    return dataclasses.replace(code, notes=(*code.notes, note))
