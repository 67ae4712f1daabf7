from pathlib import Path

import pytest

from muster.check.nccl_log import NcclNetwork, judge_network, read_log

LOGS = Path(__file__).parent / "nccl_logs"


def log(name: str) -> str:
    """One of the recorded wordings."""
    return (LOGS / f"{name}.txt").read_text(encoding="utf-8")


FOUND = {
    "efa_old": NcclNetwork(
        networks=("AWS Libfabric",),
        providers=("efa",),
        nics=4,
        direct=True,
        plugin="1.5.0aws",
        nccl="2.12.7",
    ),
    "efa_new": NcclNetwork(
        networks=("Libfabric",),
        providers=("efa",),
        nics=16,
        direct=True,
        plugin="1.16.2",
        nccl="2.27.3",
        tuner="p5en.48xlarge",
    ),
    "no_plugin_old": NcclNetwork(("Socket",), plugin_missing=True, nccl="2.4.8"),
    "no_plugin_new": NcclNetwork(("Socket",), plugin_missing=True, nccl="2.27.3"),
    "provider_tcp": NcclNetwork(("AWS Libfabric",), ("tcp",), 1, plugin="1.21.1"),
    "infiniband": NcclNetwork(("IB",), plugin_missing=True),
}


@pytest.mark.parametrize(("name", "found"), FOUND.items(), ids=FOUND)
def test_wordings(name, found):
    """Old and new ones say the same: the network, the provider, the devices, the plugin."""
    assert read_log(log(name)) == found


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("efa_old", "PASS"),
        ("efa_new", "PASS"),
        ("no_plugin_old", "FAIL"),
        ("no_plugin_new", "FAIL"),
        ("provider_tcp", "FAIL"),
        ("infiniband", "FAIL"),
    ],
)
def test_where_efa_is_wanted(name, status):
    """Sockets, InfiniBand and libfabric over TCP are none, and the remedy says where to look."""
    found = judge_network(read_log(log(name)), wanted=True)
    assert found.status == status
    assert bool(found.remedy) == (status == "FAIL")


def test_where_it_is_not_wanted():
    """Sockets are what a host without EFA has."""
    found = judge_network(read_log(log("no_plugin_new")), wanted=False)
    assert (found.status, found.evidence) == ("PASS", "NCCL uses Socket")


def test_one_rank_of_several_that_takes_sockets():
    """The logs of all ranks are one text: one that has no EFA is seen among those that have."""
    found = read_log(log("efa_new") + log("no_plugin_new"))
    assert found.networks == ("Libfabric", "Socket")
    assert judge_network(found, wanted=True).status == "FAIL"


@pytest.mark.parametrize("text", ["", "torch.distributed is ready\n"])
def test_a_log_that_says_nothing(text):
    """It is no PASS."""
    assert judge_network(read_log(text), wanted=True).status == "UNKNOWN"


def test_the_missing_plugin_is_told():
    """It is the likely reason."""
    found = judge_network(read_log(log("no_plugin_old")), wanted=True)
    assert found.evidence == "NCCL uses Socket, not EFA; it found no plugin for EFA"
