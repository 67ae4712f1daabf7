from muster.check.finding import Result
from muster.check.table import Verdict, judge, lines


def result(name: str, status, evidence: str = "seen") -> Result:
    return Result(name, status, evidence, "do it", 0.1)


WELL = [result("host.shm", "PASS"), result("gpu.ecc", "SKIP")]


def test_all_is_well():
    """No host is named, and one line counts."""
    assert judge({"algo-1": WELL, "algo-2": WELL}) == Verdict()
    assert lines({"algo-1": WELL, "algo-2": WELL}) == ["checks: 2 on 2 hosts: 1 SKIP, 1 PASS"]
    assert lines({"algo-1": WELL}) == ["checks: 2: 1 SKIP, 1 PASS"]
    assert lines({"algo-1": []}) == ["checks: none"]


def test_the_first_hosts_fail_ends_the_job():
    """In the job's order, whatever others have; warnings end nothing."""
    bad = [
        result("host.shm", "WARN"),
        result("gpu.ecc", "FAIL", "3 errors"),
        result("gpu.x", "FAIL"),
    ]
    found = {"algo-1": [result("host.shm", "WARN")], "algo-2": bad, "algo-10": bad}
    assert judge(found) == Verdict("algo-2", bad[1], 3)


def test_hosts_that_see_the_same_share_a_line():
    """What most have is told once, and who differs is named."""
    little = [result("host.shm", "WARN", "64 MiB")]
    less = [result("host.shm", "WARN", "32 MiB")]
    found = {f"algo-{number}": little for number in range(1, 8)} | {"algo-8": less}
    assert lines(found) == [
        "checks: 1 on 8 hosts: 1 WARN",
        "  WARN    host.shm           64 MiB (algo-1, algo-2, algo-3, algo-4 and 3 more)",
        "  WARN    host.shm           32 MiB (algo-8)",
        "                             do it",
    ]


def test_only_the_worst_of_a_check_is_shown():
    """A FAIL of one host is not hidden among the PASSes of the others; `whole` shows every check."""
    found = {
        "algo-1": [result("a.b", "PASS"), result("c.d", "PASS", "good")],
        "algo-2": [result("a.b", "FAIL", "bad")],
    }
    assert lines(found) == [
        "checks: 2 on 2 hosts: 1 FAIL, 1 PASS",
        "  FAIL    a.b                bad (algo-2)",
        "                             do it",
    ]
    assert lines(found, whole=True)[-1] == "  PASS    c.d                good (algo-1)"


def test_checks_that_say_the_same_share_a_line():
    """A driver that does not answer is one thing to read, not twenty; the whole table has a line for each."""
    silent = [
        Result(f"gpu.{name}", "UNKNOWN", "no answer", "", 1.0) for name in ("nvml", "ecc", "pcie")
    ]
    well = [Result(f"gpu.{name}", "PASS", "fine", "", 1.0) for name in ("nvml", "ecc", "pcie")]
    shown = lines({"algo-1": well, "algo-2": silent})
    assert shown == [
        "checks: 3 on 2 hosts: 3 UNKNOWN",
        "  UNKNOWN gpu.nvml, 2 more   no answer (algo-2)",
    ]
    assert len(lines({"algo-2": silent}, whole=True)) == 4


def test_a_hosts_own_finding_comes_before_a_comparison():
    """That two hosts differ is said of one of them: which one is broken, its own check knows."""
    found = {
        "algo-1": [result("gpu.same", "FAIL")],
        "algo-2": [result("gpu.count", "FAIL", "3 GPUs")],
    }
    assert judge(found, ("gpu.same",)).host == "algo-2"
    assert judge(found).host == "algo-1"


def test_what_to_do_is_said_once_and_only_where_something_is_wrong():
    """Hosts with one remedy share its line; what could not be looked at has none."""
    found = {
        "algo-1": [result("a.b", "WARN", "1 GiB"), result("c.d", "UNKNOWN", "no answer")],
        "algo-2": [result("a.b", "WARN", "2 GiB"), result("c.d", "UNKNOWN", "no answer")],
    }
    assert lines(found) == [
        "checks: 2 on 2 hosts: 1 WARN, 1 UNKNOWN",
        "  WARN    a.b                1 GiB (algo-1)",
        "  WARN    a.b                2 GiB (algo-2)",
        "                             do it",
        "  UNKNOWN c.d                no answer (algo-1, algo-2)",
    ]


def test_seconds_of_the_slowest_host():
    """By hand each line says what its look has taken."""
    slow = Result("a.b", "PASS", "seen", "", 2.25)
    found = {"algo-1": [result("a.b", "PASS")], "algo-2": [slow]}
    (line,) = lines(found, whole=True, timed=True)[1:]
    assert line == "  PASS    a.b                  2.25 s  seen (algo-1, algo-2)"
