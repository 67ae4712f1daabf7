import pytest

from muster.check.gpu.facts import Gpu, Missing
from muster.check.gpu.visible import visible

FOUR = tuple(Gpu(i, name="H100", uuid=f"GPU-{i}{i}aa-bb") for i in range(4))


@pytest.mark.parametrize(
    ("chosen", "seen", "missing"),
    [
        (None, [0, 1, 2, 3], ""),
        ("", [], ""),
        ("-1", [], ""),
        ("2", [2], ""),
        (" 3 , 1", [3, 1], ""),
        ("0,0", [0], ""),
        ("1,7,2", [1], "7"),
        ("1,-1,2", [1], ""),
        ("GPU-22aa-bb,GPU-00", [2, 0], ""),
        ("GPU-", [], "GPU-"),
        ("GPU-99", [], "GPU-99"),
        ("NoDevFiles", [], "NoDevFiles"),
    ],
)
def test_what_cuda_would_show(chosen, seen, missing):
    """Numbers, UUIDs, shortened ones; CUDA reads no further than the first entry that names nothing."""
    env = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    found = visible(FOUR, env)
    assert [gpu.index for gpu in found.gpus] == seen
    assert found.missing == missing


def test_numbers_of_gpus_of_several_kinds():
    """CUDA counts the fastest first, NVML by PCI: all count, unless CUDA is told to count as NVML does."""
    mixed = (Gpu(0, name="T4"), Gpu(1, name="H100"))
    found = visible(mixed, {"CUDA_VISIBLE_DEVICES": "0"})
    assert found.gpus == mixed
    assert "several kinds" in found.note
    ordered = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert visible(mixed, ordered).gpus == mixed[:1]


def test_slices_count_as_the_gpus_that_are_sliced():
    """A MIG device's name doesn't say whose part it is."""
    gpus = (Gpu(0, mig=1), Gpu(1, mig=0))
    assert visible(gpus, {"CUDA_VISIBLE_DEVICES": "MIG-1234"}).gpus == gpus[:1]


def test_a_lost_gpu_may_be_the_one_that_is_named():
    """It can't tell its UUID any more, and must not be taken for one that the job doesn't use."""
    gpus = (Gpu(0, uuid="GPU-a"), Gpu(1, uuid=Missing("GpuIsLost")))
    assert visible(gpus, {"CUDA_VISIBLE_DEVICES": "GPU-b"}).gpus == gpus[1:]
