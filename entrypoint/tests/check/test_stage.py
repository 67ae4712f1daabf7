import dataclasses
import json

import pytest

from muster.check import begin, capacity, conclude
from muster.check.finding import Result
from muster.errors import CheckError, ContractError
from muster.model import Machine, Paths
from muster.settings import read_settings

SMALL = Machine(cpus=2, gpus=0, interfaces=("eth0",), shm=64 * 2**20)
LARGE = dataclasses.replace(SMALL, shm=64 * 2**30)


class Hosts:
    """The meeting of a job, for one of its hosts; what the others tell is given."""

    def __init__(self, host: str, others=None) -> None:
        self.host, self.others = host, others or {}

    def during(self, work):
        return work()

    def offsets(self):
        return {self.host: 0.0}

    def consult(self, topic, data, judge):
        assert topic == "checks"
        return json.loads(json.dumps(judge({self.host: data, **self.others})))


@pytest.fixture
def results(make_job, monkeypatch, tmp_path):
    """Return a function that runs the checks of a job's host and concludes them."""
    paths = Paths(str(tmp_path))
    monkeypatch.setattr(capacity, "shared_memory", lambda _: (0, 64 * 2**30))

    def run(machine: Machine = LARGE, nproc: int = 2, others=None, **env: str):
        job = make_job(machine=machine, paths=paths, checkpoints=paths.checkpoints)
        running = begin(job, read_settings(env), {}, nproc)
        return conclude(running, Hosts(job.current_host, others), job.current_host)

    return run


def named(results, name: str) -> Result:
    (found,) = [one for one in results if one.name == name]
    return found


def test_a_good_host(results, capfd):
    """Its results come back, and the log has the table."""
    assert named(results(), "host.shm").status == "PASS"
    assert "checks: " in capfd.readouterr().err


def test_little_shared_memory(results):
    """64 MiB under a need of 2 GiB is a warning with figures."""
    found = named(results(SMALL), "host.shm")
    assert found.status == "WARN"
    assert found.evidence == "/dev/shm has 64 MiB, 2 ranks may need 2.0 GiB"


def test_a_fail_ends_the_job(results):
    """By the name of the check, with evidence, remedy and the way to go on all the same."""
    with pytest.raises(CheckError, match=r"check host.shm on algo-1: /dev/shm has 64 MiB") as error:
        results(SMALL, MUSTER_CHECKS="host.shm=fail")
    assert "MUSTER_CHECKS=host.shm=warn" in error.value.remedy


def test_another_hosts_fail_is_the_others_business(results):
    """The channel ends this host; by itself it only goes on to the barrier."""
    bad = ["host.shm", "FAIL", "64 MiB", "more", 0.1]
    assert named(results(others={"algo-2": {"results": [bad]}}), "host.shm").status == "PASS"


@pytest.mark.parametrize(
    "told",
    [
        None,
        5,
        {"results": [["a"]]},
        {"results": [["a", "GOOD", "", "", 0.0]]},
        {"results": [], "facts": 5},
        {"results": [], "facts": {"group": "a", "versions": 3, "gpus": [], "efa": 0, "name": ""}},
    ],
)
def test_what_another_host_tells_in_vain(results, told):
    """It counts as nothing, and breaks nothing."""
    assert results(others={"algo-2": told})


def test_switched_off(results):
    """Nothing is looked at, and the other hosts need not wait."""
    assert results(MUSTER_CHECK="off") == ()
    assert not [one for one in results(MUSTER_CHECKS="host.shm=off") if one.name == "host.shm"]


def test_a_name_that_is_none(results):
    """It is refused, with the near one."""
    with pytest.raises(ContractError, match=r"names 'host.shn'") as error:
        results(MUSTER_CHECKS="host.shn=off")
    assert error.value.remedy == "Did you mean host.shm?"
