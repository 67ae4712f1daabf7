import os

import pytest

from muster.contract import machine
from muster.contract.machine import look_at_machine


def test_this_machine():
    """Processors are those that this process may use, and the loopback interface is seen."""
    seen = look_at_machine({})
    assert seen.cpus == len(os.sched_getaffinity(0))
    assert "lo" in seen.interfaces


def test_fewer_processors_for_this_process():
    """A container that may use one processor has one, however many the machine has."""
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(all_of_them)})
    try:
        assert look_at_machine({}).cpus == 1
    finally:
        os.sched_setaffinity(0, all_of_them)


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        (None, 4),
        ("0,1", 2),
        ("3", 1),
        ("", 0),
        ("-1", 0),
        ("0,-1,1", 1),
        ("0,9,1", 1),
        ("void", 0),
        ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", 1),
        ("MIG-1,MIG-2", 2),
        (" 0 , 1 ", 2),
    ],
)
def test_visible_gpus(monkeypatch, chosen: str | None, count: int):
    """CUDA_VISIBLE_DEVICES counts as CUDA counts: up to the first entry that is no device."""
    monkeypatch.setattr(machine, "_nvml_count", lambda: 4)
    env = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    assert look_at_machine(env | {"NVIDIA_VISIBLE_DEVICES": "void"}).gpus == count
