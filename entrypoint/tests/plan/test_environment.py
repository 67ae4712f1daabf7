from __future__ import annotations

import pytest

from muster.plan.environment import no_proxy

TWO = ("algo-1", "algo-2")
OWN = "algo-1,algo-2,169.254.170.2,169.254.169.254,localhost,127.0.0.1"


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
