import signal

import pytest

from muster.launch.evidence import Evidence
from muster.launch.explain import explain, overdue
from muster.model import ErrorRecord, RankEnd

MIB = 2**20
KILLED = Evidence(oom_kills=1, memory_limit=256 * MIB)
FULL = Evidence(shm_size=64 * MIB, shm_free=0)
ROOMY = Evidence(shm_size=64 * MIB, shm_free=60 * MIB)


def end(code: int, error: str = "", tail: tuple[str, ...] = (), **more) -> RankEnd:
    kind, _, message = error.partition(": ")
    record = ErrorRecord(kind, message, "", 1.0, 7, 1) if error else None
    return RankEnd(3, 1, 7, code, 2.0, error=record, stderr_tail=tail, **more)


@pytest.mark.parametrize(
    ("code", "evidence", "headline", "remedy"),
    [
        (
            -9,
            KILLED,
            "SIGKILL (signal 9): out of memory (the container may have 256 MiB)",
            "smaller",
        ),
        (-9, Evidence(), "the script was killed by SIGKILL (signal 9)", "when memory runs out"),
        (-7, FULL, "SIGBUS (signal 7): /dev/shm is full (64 MiB)", "--shm-size=1g"),
        (-7, ROOMY, "the script was killed by SIGBUS (signal 7)", "/dev/shm has 64 MiB"),
        (-7, Evidence(), "the script was killed by SIGBUS (signal 7)", "default-shm-size"),
        (-11, Evidence(), "the script was killed by SIGSEGV (signal 11)", "PYTHONFAULTHANDLER"),
        (-6, Evidence(), "the script was killed by SIGABRT (signal 6)", "stderr"),
    ],
)
def test_signals(code: int, evidence: Evidence, headline: str, remedy: str):
    """The signal by name, why it came where the kernel's counters tell, and what to do."""
    cause = explain("algo-2", end(code), evidence)
    assert cause.headline.endswith(headline)
    assert remedy in cause.remedy
    assert (cause.kind, cause.status, cause.rank) == ("signal", 128 - code, 3)


@pytest.mark.parametrize(
    ("error", "evidence", "remedy"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", Evidence(), "checkpointing"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory.", Evidence(), "sharding"),
        ("RuntimeError: CUDA out of memory. Tried to allocate", Evidence(), "smaller batch"),
        ("RuntimeError: DataLoader worker (pid 9) is killed by signal: Killed.", KILLED, "256 MiB"),
        (
            "RuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error.",
            ROOMY,
            "64 MiB",
        ),
        ("RuntimeError: unable to write to file </torch_12_34_0>: No space", FULL, "--shm-size"),
        (
            "ImportError: libhwloc.so.15: cannot open shared object file: No such file",
            Evidence(),
            "LD_LIBRARY_PATH",
        ),
        ("ValueError: bad label 7", Evidence(), ""),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/a.cc'", Evidence(), ""),
    ],
)
def test_errors(error: str, evidence: Evidence, remedy: str):
    """The script's own error is the reason; a known kind of it comes with what to do."""
    cause = explain("algo-2", end(1, error), evidence)
    assert cause.headline == error
    assert remedy in cause.remedy
    assert bool(cause.remedy) == bool(remedy)


def test_the_last_line_with_words_is_the_reason():
    """Programs draw rules around what they say."""
    cause = explain("algo-2", end(1, tail=("mpirun: no such host", "-----", " ")), Evidence())
    assert cause.headline == "mpirun: no such host"
    assert explain("algo-2", end(1, tail=("---",)), Evidence()).headline.endswith("status 1")


@pytest.mark.parametrize(
    ("error", "tail"),
    [
        ("InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx", ""),
        ("RuntimeError: Failed to find C compiler. Please specify via CC environment", ""),
        (
            "CalledProcessError: Command 'pip install x' returned",
            "error: command 'gcc' failed: No such file or directory",
        ),
        (
            "CalledProcessError: Command 'pip install x' returned",
            "error: command '/usr/bin/x86_64-linux-gnu-gcc' failed: No such file or directory",
        ),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'x86_64-linux-gnu-g++'", ""),
        ("RuntimeError: Error building extension 'fused_adam'", "/bin/sh: 1: c++: not found"),
    ],
)
def test_a_missing_compiler(error: str, tail: str):
    """Whoever misses a compiler is told which images have one."""
    cause = explain("algo-2", end(1, error, tail=("before", tail, "after")), Evidence())
    assert "cpu-dev" in cause.remedy


@pytest.mark.parametrize(
    ("code", "error", "tail"),
    [
        (1, "FileNotFoundError: [Errno 2] No such file or directory: 'git'", "after"),
        (1, "CalledProcessError: Command 'pip install x'", "ERROR: Cannot find command 'git' - do"),
        (127, "", "run.sh: line 2: git: command not found"),
        (127, "", "run.sh: 2: git: not found"),
    ],
)
def test_a_missing_git(code: int, error: str, tail: str):
    """A script that fetches its code by git, itself or by pip, is told how an image gets it."""
    cause = explain("algo-2", end(code, error, tail=("before", tail)), Evidence())
    assert "MUSTER_APT_PACKAGES=git" in cause.remedy


def test_a_git_that_does_not_find_something():
    """Its own words are no sign that it is missing."""
    tail = (
        "fatal: repository 'https://git.example/x' not found",
        "git: 'lfs' is not a git command",
    )
    assert not explain("algo-2", end(1, tail=tail), Evidence()).remedy


@pytest.mark.parametrize(
    ("code", "evidence", "remedy"),
    [(137, KILLED, "killed a process for memory"), (135, ROOMY, "/dev/shm"), (3, ROOMY, "")],
)
def test_a_shells_status_for_a_signal(code: int, evidence: Evidence, remedy: str):
    """A shell passes a signal on as 128 + n: the counters speak all the same."""
    cause = explain("algo-2", end(code), evidence)
    assert cause.headline == f"the script ended with status {code}"
    assert remedy in cause.remedy
    assert bool(cause.remedy) == bool(remedy)


def test_ranks_that_did_not_end_are_named():
    """Who was killed after a stop, how long they had, and what to do."""
    ends = [
        RankEnd(
            rank, rank, 7, -signal.SIGKILL, 120.0, signalled=15, signalled_time=10.0, killed=True
        )
        for rank in (1, 3)
    ]
    cause = overdue("algo-1", ends, signal.SIGTERM)
    assert cause.headline == (
        "ranks 1, 3 did not end within 110 s of SIGTERM (signal 15) and had to be killed"
    )
    assert (cause.kind, cause.status, cause.rank) == ("signal", 137, 1)
    assert "MUSTER_STOP_GRACE_S" in cause.remedy
    assert overdue("h", ends[:1], signal.SIGINT).headline.startswith(
        "rank 1 did not end within 110 s of SIGINT"
    )
