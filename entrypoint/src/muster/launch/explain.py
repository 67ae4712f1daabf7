"""How one rank's end is told to a person: the reason, and what to do. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from muster.contract.machine import MORE_SHARED_MEMORY
from muster.errors import SIGNAL_BASE, STATUS_OF_KIND
from muster.launch.evidence import Evidence
from muster.model import Cause, RankEnd
from muster.requirements.compiler import NO_COMPILER
from muster.requirements.git import HOW_TO_GET_IT, NO_GIT

DETAIL_LINES = 30
"""Of a rank's last lines on stderr, those that the failure's text may use."""

_UNCAUGHT = 1
"""Python's status after an exception that nothing caught."""
_SPEAKING_CODES = (_UNCAUGHT, 2)
"""Codes that Python and argparse use themselves: there the last line on stderr is the reason."""

_WORD = re.compile(r"\w")
"""Of a line; programs draw rules around what they say."""

_LESS_MEMORY = "A smaller batch, fewer data-loader workers, or an instance with more memory."
_SIGNAL_REMEDY: dict[int, str] = {
    signal.SIGKILL: (
        "The kernel kills so when memory runs out; a person or another program may have, too. "
        "Look at the memory use. " + _LESS_MEMORY
    ),
    signal.SIGSEGV: "Native code crashed. PYTHONFAULTHANDLER=1 prints where.",
    signal.SIGABRT: "Native code gave up. The last lines on stderr say why.",
}
_THREADS_LEFT = "terminate called without an active exception"
_THREADS_REMEDY = (
    "Native threads outlived Python. With torch and gloo, put time.sleep(0.1) behind "
    "destroy_process_group(); what the script had saved by then is whole."
)
_GPU_MEMORY = re.compile(r"^(torch\.)?(cuda\.)?OutOfMemoryError\b|CUDA out of memory")
_GPU_REMEDY = (
    "The GPU's memory is full. A smaller batch, activation checkpointing "
    "(torch.utils.checkpoint), or sharding the model (FSDP)."
)
_COMPILER_REMEDY = (
    "The image lacks the compiler for that: the tag cpu-dev has g++, and so has an image built "
    "with MUSTER_APT_PACKAGES=g++ or one of your own; most packages also come as wheels."
)
_NO_LIBRARY = re.compile(r"\.so[.\d]*: cannot open shared object file")
_LIBRARY_REMEDY = (
    "Add the Debian package that has it to the image (MUSTER_APT_PACKAGES), or its folder to LD_LIBRARY_PATH; "
    "SageMaker's data parallel library has its own in <site-packages>/smdistributed/dataparallel/lib."
)
_PLAIN = ((_GPU_MEMORY, _GPU_REMEDY), (_NO_LIBRARY, _LIBRARY_REMEDY))
"""Errors that say all by themselves."""
_SHARED_MEMORY = re.compile(r"\bshm\b|shared memory|/torch_\d+|bus error", re.IGNORECASE)
_MIB = 1024 * 1024


def explain(host: str, end: RankEnd, evidence: Evidence) -> Cause:
    """Why a rank that was not ended by us has failed.

    Args:
        host: this host's name.
        end: how the rank ended.
        evidence: what the kernel has counted since the ranks began.
    """
    if end.code < 0 and not end.error:
        return _explain_signal(host, end, evidence)
    if end.error:
        # Also where a signal ended it: native code often aborts while Python dies of this error.
        headline, detail = end.error.headline, end.error.traceback
    else:
        tail = end.stderr_tail
        detail = "\n".join(tail[-DETAIL_LINES:])
        said = next((line.strip() for line in reversed(tail) if _WORD.search(line)), "")
        speaks = end.code in _SPEAKING_CODES and said
        headline = said if speaks else f"the script ended with status {end.code}"
    remedy = _remedy(headline, end, evidence)
    return Cause(headline, "user", _own_status(end), host, end.rank, detail, remedy)


def _own_status(end: RankEnd) -> int:
    """The status of the rank's own failure, where ours came after it: while Python was dying of it."""
    ours = end.code < 0 and -end.code in (end.signalled, signal.SIGKILL if end.killed else 0)
    if end.error and ours and end.error.time < end.signalled_time:
        return _UNCAUGHT
    return end.status


def overdue(host: str, ends: Sequence[RankEnd], stop_signal: int) -> Cause:
    """Ranks that were asked to end and did not, until they were killed."""
    first = ends[0]
    ranks = ", ".join(str(end.rank) for end in ends)
    named = f"rank {ranks}" if len(ends) == 1 else f"ranks {ranks}"
    seconds = first.time - first.signalled_time
    asked = signal_name(stop_signal)
    headline = f"{named} did not end within {seconds:.0f} s of {asked} and had to be killed"
    remedy = "Save faster, or raise MUSTER_STOP_GRACE_S; SageMaker kills after 120 s."
    detail = "\n".join(first.stderr_tail[-DETAIL_LINES:])
    return Cause(headline, "signal", first.status, host, first.rank, detail, remedy)


def frozen(host: str, rank: int, seconds: float, now: float) -> Cause:
    """A rank that somebody has stopped, for `seconds`: it will not end by itself."""
    headline = f"rank {rank} has been stopped by {signal_name(signal.SIGSTOP)} for {seconds:.0f} s"
    remedy = "`kill -CONT` continues it in time; MUSTER_SILENCE_S is how long it may take."
    status = STATUS_OF_KIND["stalled"]
    return Cause(headline, "stalled", status, host, rank, "", remedy, now - seconds)


def out_of_memory(host: str, program: str, evidence: Evidence) -> Cause:
    """A program of ours that the kernel has killed for the memory of the whole container."""
    killed = signal_name(signal.SIGKILL)
    headline = f"{program} was killed by {killed}: out of memory{_limit(evidence)}"
    return Cause(headline, "signal", SIGNAL_BASE + signal.SIGKILL, host, None, "", _LESS_MEMORY)


def signal_name(number: int) -> str:
    """`SIGTERM (signal 15)`."""
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"


def _explain_signal(host: str, end: RankEnd, evidence: Evidence) -> Cause:
    number = -end.code
    if end.signalled:
        headline = f"the script was stopped by {signal_name(number)}"
    else:
        headline = f"the script was killed by {signal_name(number)}{_why(number, evidence)}"
    detail = "\n".join(end.stderr_tail[-DETAIL_LINES:])
    remedy = "" if end.signalled else _remedy_of_signal(number, end, evidence)
    return Cause(headline, "signal", end.status, host, end.rank, detail, remedy)


def _why(number: int, evidence: Evidence) -> str:
    if number == signal.SIGKILL and evidence.oom_kills:
        return f": out of memory{_limit(evidence)}"
    if number == signal.SIGBUS and _is_full(evidence):
        return f": /dev/shm is full ({evidence.shm_size // _MIB} MiB)"
    return ""


def _remedy_of_signal(number: int, end: RankEnd, evidence: Evidence) -> str:
    if number == signal.SIGKILL and evidence.oom_kills:
        return _LESS_MEMORY
    if number == signal.SIGBUS:
        return _more_shm(evidence)
    if number == signal.SIGABRT and any(_THREADS_LEFT in line for line in end.stderr_tail[-3:]):
        return _THREADS_REMEDY
    return _SIGNAL_REMEDY.get(number, "")


def _remedy(headline: str, end: RankEnd, evidence: Evidence) -> str:
    for pattern, remedy in _PLAIN:
        if pattern.search(headline):
            return remedy
    if evidence.oom_kills:
        # A worker's death often reaches the script as an error that doesn't say why.
        killed = "a process" if evidence.oom_kills == 1 else f"{evidence.oom_kills} processes"
        return f"The kernel killed {killed} for memory{_limit(evidence)}. {_LESS_MEMORY}"
    if any(NO_COMPILER.search(line) for line in (headline, *end.stderr_tail)):
        # pip's own error is behind it: `subprocess.run(["pip", …])` says only that pip failed.
        return _COMPILER_REMEDY
    if _SHARED_MEMORY.search(headline):
        return _more_shm(evidence)
    if end.status == SIGNAL_BASE + signal.SIGBUS:
        return _more_shm(evidence)
    # Last: a script may have looked for git and gone on without.
    return HOW_TO_GET_IT if any(map(NO_GIT.search, (headline, *end.stderr_tail))) else ""


def _limit(evidence: Evidence) -> str:
    limit = evidence.memory_limit
    return f" (the container may have {limit // _MIB} MiB)" if limit else ""


def _is_full(evidence: Evidence) -> bool:
    # A page may be left: what did not fit was larger.
    return bool(evidence.shm_size) and evidence.shm_free < evidence.shm_size // 20


def _more_shm(evidence: Evidence) -> str:
    has = f"has {evidence.shm_size // _MIB} MiB" if evidence.shm_size else "may be full"
    return f"/dev/shm {has}. {MORE_SHARED_MEMORY}; or fewer data-loader workers."
