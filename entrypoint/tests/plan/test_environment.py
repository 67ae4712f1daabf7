from __future__ import annotations

import pytest

from muster.plan.environment import handed_on, no_proxy

TWO = ("algo-1", "algo-2")
OWN = "algo-1,algo-2,169.254.170.2,169.254.169.254,localhost,127.0.0.1"


def test_what_programs_get():
    """All but the harness's own secret and what another MPI job has left; a user's settings of MPI stay."""
    kept = {"A": "1", "OMPI_MCA_btl": "tcp", "OMPI_ALLOW_RUN_AS_ROOT": "1", "HOROVOD_TIMELINE": "t"}
    left = {"OMPI_COMM_WORLD_RANK": "7", "PMIX_RANK": "7", "PMI_RANK": "7", "PRTE_X": "y"}
    left |= {"HOROVOD_RANK": "7", "OMPI_MCA_ess": "pmi", "OMPI_MCA_orte_hnp_uri": "tcp://x"}
    assert handed_on({**kept, **left, "MUSTER_JOB_SECRET": "s"}) == kept


def test_without_a_proxy_nothing_is_set(make_job):
    """Nobody needs exceptions from nothing."""
    assert no_proxy(make_job(hosts=TWO), {"NO_PROXY": "intern"}) == {}
    assert no_proxy(make_job(hosts=TWO), {"http_proxy": ""}) == {}


@pytest.mark.parametrize("proxy", ["http_proxy", "HTTPS_PROXY", "all_proxy"])
def test_hosts_and_aws_are_reached_without_the_proxy(make_job, proxy):
    """Both spellings say the same: what either had, the hosts, and where AWS answers a container."""
    given = {proxy: "http://proxy:8080", "NO_PROXY": "intern, algo-2", "no_proxy": "other"}
    found = no_proxy(make_job(hosts=TWO), given)
    assert found["NO_PROXY"] == found["no_proxy"]
    assert sorted(found["NO_PROXY"].split(",")) == sorted([*OWN.split(","), "intern", "other"])


def test_no_exception_is_needed_from_everything(make_job):
    """`*` is all hosts already."""
    assert no_proxy(make_job(hosts=TWO), {"http_proxy": "x", "no_proxy": "*"}) == {}
