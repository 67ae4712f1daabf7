import pytest

from muster_perf.errors import PerfError
from muster_perf.results import device
from muster_perf.world import Identity, hosts, identify

TORCH = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
MEETING = {"MASTER_ADDR": "algo-1", "MASTER_PORT": "7777"}
MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}


@pytest.mark.parametrize(
    ("env", "identity"),
    [
        ({}, Identity(0, 1, 0, 1, None)),
        ({"WORLD_SIZE": "1"}, Identity(0, 1, 0, 1, None)),
        (TORCH | MEETING, Identity(3, 4, 1, 2, "env://")),
        (MPI, Identity(1, 2, 1, 2, "tcp://127.0.0.1:29500")),
        (MPI | {"MASTER_PORT": "7"}, Identity(1, 2, 1, 2, "tcp://127.0.0.1:7")),
        (MPI | {"MASTER_ADDR": "algo-1"}, Identity(1, 2, 1, 2, "tcp://algo-1:29500")),
        (MPI | TORCH | MEETING, Identity(1, 2, 1, 2, "env://")),
        (MPI | TORCH | MEETING | {"TORCHELASTIC_RUN_ID": "x"}, Identity(3, 4, 1, 2, "env://")),
    ],
    ids=["alone", "one", "torch", "mpi", "port", "address", "mpi-in-torch's", "torchrun-in-mpi"],
)
def test_who_a_process_is(env, identity):
    """By torch.distributed's variables or the launcher's own, of which the launcher's win; without any it is alone."""
    assert identify(env) == identity


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"WORLD_SIZE": "4"}, "rank None of 4"),
        ({"RANK": "1"}, "rank 1 of None"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, "rank 4 of 4"),
        ({"RANK": "one", "WORLD_SIZE": "4"}, "rank is 'one'"),
        (TORCH, "no MASTER_ADDR says where they meet"),
    ],
)
def test_half_a_launcher_is_no_launcher(env, told):
    """N processes that each measure alone would look like a broken network."""
    with pytest.raises(PerfError, match=told):
        identify(env)


def test_hosts_in_the_order_of_ranks():
    """Each host once, the first rank's first."""
    assert hosts(["b", "b", "a", "c", "a"]) == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        (
            "#  Rank  1 Group  0 Pid 123456 on     algo-2 device  7 [0000:a1:00] NVIDIA H100 80GB HBM3",
            (1, 123456, "algo-2", 7, "0000:a1:00", "NVIDIA H100 80GB HBM3"),
        ),
        (
            "#  Rank 12 Group  0 Pid      7 on a-long-name.example device  0 [cpu] no GPU",
            (12, 7, "a-long-name.example", 0, "cpu", "no GPU"),
        ),
    ],
    ids=["gpu", "cpu"],
)
def test_a_device_line_taken_apart(line, facts):
    """What the JSON file says of a rank is what its line says."""
    found = device(line)
    assert found.pop("group") == 0
    assert tuple(found.values()) == facts
