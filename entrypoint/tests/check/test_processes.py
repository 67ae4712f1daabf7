import pytest

from muster.check import processes
from muster.check.processes import LOOKS, judge

HUNG = {7: ("cp (of a dead) server", 5)}


@pytest.mark.parametrize(
    ("states", "looks", "status", "evidence"),
    [
        ({"S": 3, "Z": 1}, [{}], "PASS", "4 processes, 1 zombie"),
        ({"S": 1, "Z": 100}, [{}], "PASS", "101 processes, 100 zombies"),
        ({"S": 1, "Z": 101}, [{}], "WARN", "102 processes, 101 zombies"),
        ({"D": 1}, [HUNG] * LOOKS, "WARN", "1 process, 0 zombies; in the kernel for 0.6 s: "),
        ({"D": 1}, [HUNG] * (LOOKS - 1) + [{}], "PASS", "1 process, 0 zombies"),
        ({"D": 1}, [HUNG] * (LOOKS - 1) + [{7: ("cp", 6)}], "PASS", "1 process, 0 zombies"),
        ({}, [{}], "UNKNOWN", "/proc shows no process"),
    ],
    ids=["well", "some-zombies", "many-zombies", "hangs", "for-a-moment", "gets-on", "nothing"],
)
def test_states(states, looks, status, evidence):
    """50 zombies a processor; a wait in the kernel only where it stays, without any work done."""
    found = judge(states, looks, 2)
    assert found.status == status
    assert found.evidence.startswith(evidence)
    assert bool(found.remedy) == (status == "WARN")


def stat(command: str, state: str, ticks: int = 5) -> str:
    return f"7 ({command}) {state} 1 7 7 0 -1 4194304 0 0 0 0 {ticks} 0 0 0 20 0 1 0\n"


def test_proc_is_read(look, put, monkeypatch):
    """Numbers, not other folders; a command with blanks and brackets; one that has ended meanwhile."""
    monkeypatch.setattr(processes, "BETWEEN_S", 0.001)
    put("proc/1/stat", stat("muster", "S"))
    put("proc/7/stat", stat("cp (of a dead) server", "D"))
    put("proc/self/stat", stat("muster", "S"))
    put("proc/9/comm", "it has no stat any more")
    found = look("host.processes")
    assert found.status == "WARN"
    assert found.evidence.endswith(": cp (of a dead) server (7)")
    assert found.evidence.startswith("2 processes, 0 zombies; ")


def test_nothing_in_the_kernel_is_looked_at_once(look, put, monkeypatch):
    """A host that is well does not wait for a second look."""
    put("proc/1/stat", stat("muster", "S"))
    monkeypatch.setattr(processes.time, "sleep", None)
    assert look("host.processes").status == "PASS"


def test_no_proc(look):
    """Without /proc it is no PASS: an empty one shows nothing, a missing one raises."""
    assert look("host.processes").status == "UNKNOWN"
    with pytest.raises(FileNotFoundError):
        look("host.processes", proc="/nowhere")
