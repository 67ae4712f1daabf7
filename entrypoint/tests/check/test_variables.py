import pytest

from muster.check.variables import (
    TABLE,
    Surroundings,
    harmful,
    judge_variables,
    missing_files,
    names_an_interface,
)

HERE = Surroundings(interfaces=("eth0", "eth0.5", "lo"), efa=True, missing=())
NO_EFA = Surroundings(interfaces=("eth0", "lo"), efa=False, missing=())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_ASYNC_ERROR_HANDLING", "1"),
        ("NCCL_BLOCKING_WAIT", "1"),
        ("NCCL_MIN_NRINGS", "4"),
        ("NCCL_PROTO", "simple"),
        ("NCCL_PROTO", "Simple"),
        ("FI_EFA_USE_DEVICE_RDMA", "1"),
        ("RDMAV_FORK_SAFE", "1"),
        ("RDMAV_HUGEPAGES_SAFE", "1"),
        ("FI_PROVIDER", "tcp"),
        ("NCCL_NET", "Socket"),
        ("NCCL_NET_PLUGIN", "none"),
        ("NCCL_IB_DISABLE", "1"),
        ("NCCL_SOCKET_IFNAME", "eth7"),
        ("GLOO_SOCKET_IFNAME", "eth7"),
        ("TP_SOCKET_IFNAME", "eth"),
    ],
)
def test_what_does_harm_or_nothing(name, value):
    """It is named with its value and the reason, once."""
    (text,) = harmful({name: value}, HERE)
    assert text.startswith(f"{name}={value}: ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_DEBUG", "INFO"),
        ("NCCL_PROTO", "LL128"),
        ("NCCL_ASYNC_ERROR_HANDLING", ""),
        ("FI_PROVIDER", "efa"),
        ("FI_EFA_USE_HUGE_PAGE", "0"),
        ("NCCL_NET", "AWS Libfabric"),
        ("NCCL_SOCKET_IFNAME", "eth"),
        ("NCCL_SOCKET_IFNAME", "=eth0"),
        ("NCCL_SOCKET_IFNAME", "^lo,docker"),
        ("GLOO_SOCKET_IFNAME", "eth0,lo"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
    ],
)
def test_what_is_well(name, value):
    """Variables that a user may well want are left alone."""
    assert harmful({name: value}, HERE) == []


@pytest.mark.parametrize("name", ["NCCL_NET", "NCCL_IB_DISABLE"])
def test_what_matters_with_efa_only(name):
    """Elsewhere sockets may be what is wanted."""
    env = {name: {"NCCL_NET": "Socket"}.get(name, "1")}
    assert harmful(env, HERE)
    assert not harmful(env, NO_EFA)


def test_a_variable_and_its_old_name_that_differ():
    """Torch takes the new one, whatever the old one was meant to do."""
    found = harmful(
        {"NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}, HERE
    )
    assert found[-1] == "TORCH_NCCL_ASYNC_ERROR_HANDLING=1 and its old name=0 differ"
    same = {"NCCL_ASYNC_ERROR_HANDLING": "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
    assert len(harmful(same, HERE)) == 1


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("eth0", True),
        ("et", True),
        ("=et", False),
        ("=eth0.5", True),
        ("^eth", True),
        ("^eth,lo", False),
        ("^=eth", True),
        ("ib0,eth0", True),
        ("ib", False),
    ],
)
def test_forms_of_nccls_interfaces(value, found):
    """Prefixes, whole names after =, and what is left out after ^."""
    interfaces = ("eth0", "eth0.5", "lo")
    assert names_an_interface(value, interfaces, name="NCCL_SOCKET_IFNAME") == found


def test_files_that_are_not_there(tmp_path):
    """A path must exist; a name is the loader's business."""
    there = tmp_path / "plugin.so"
    there.touch()
    env = {
        "NCCL_NET_PLUGIN": str(tmp_path / "gone.so"),
        "NCCL_TUNER_PLUGIN": str(there),
        "NCCL_TOPO_FILE": "topo.xml",
    }
    assert missing_files(env) == ("NCCL_NET_PLUGIN",)
    around = Surroundings(("eth0",), efa=False, missing=("NCCL_NET_PLUGIN",))
    assert harmful(env, around) == [f"NCCL_NET_PLUGIN={tmp_path}/gone.so: no such file"]


def test_the_verdict():
    """What is set and well is told; what is not is a warning that says what to leave out."""
    found = judge_variables({"NCCL_DEBUG": "INFO", "FI_PROVIDER": "efa", "HOME": "/"}, HERE)
    assert (found.status, found.evidence) == ("PASS", "set: FI_PROVIDER, NCCL_DEBUG")
    assert judge_variables({"HOME": "/"}, HERE).evidence == "none is set"
    found = judge_variables({"RDMAV_FORK_SAFE": "1", "NCCL_PROTO": "simple"}, HERE)
    assert found.status == "WARN"
    assert found.remedy == "Leave NCCL_PROTO, RDMAV_FORK_SAFE out of the job's environment."


def test_the_table_has_sources():
    """Nobody's recollection ends up as advice."""
    assert all(row.source and row.why for row in TABLE)
