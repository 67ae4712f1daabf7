import os
import socket
import time

import pytest
from fake_nvml import H100, Library, Script
from fake_nvml.looking import install

from muster.contract import machine
from muster.contract.machine import (
    default_interface,
    interface_towards,
    look_at_machine,
    shared_memory,
    usable_cpus,
)


def test_this_machine():
    """Processors are those that this process may use, and the loopback interface is seen."""
    seen = look_at_machine({})
    assert 1 <= seen.cpus <= len(os.sched_getaffinity(0))
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


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({"cpu.max": "100000 100000"}, 1),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": ""}, None),
        ({"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "99000000", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_a_share_of_time_counts(tmp_path, files: dict[str, str], count: int | None):
    """`docker run --cpus` limits the processors that count, under both versions of cgroups."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text}\n")
    visible = len(os.sched_getaffinity(0))
    assert usable_cpus(str(tmp_path)) == (visible if count is None else min(count, visible))


def test_the_interface_of_the_default_route(tmp_path):
    """Of several interfaces the one with the default route is known; without a route none is."""
    titles = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT"
    local = "docker0 000012C6 00000000 0001 0 0 0 00FFFFFF 0 0 0"
    default = "ens5 00000000 0100A8C0 0003 0 0 0 00000000 0 0 0"
    table = tmp_path / "route"
    table.write_text(f"{titles}\n{local}\n{default}\n")
    assert default_interface(str(table)) == "ens5"
    table.write_text(f"{titles}\n{local}\n")
    assert default_interface(str(table)) == ""
    assert default_interface(str(tmp_path / "absent")) == ""


@pytest.mark.parametrize("host", ["", "127.0.0.1", "no-such-host.invalid", "a" * 300, "ü..x"])
def test_a_host_that_leads_nowhere(host: str):
    """Without another host to ask the kernel about, the default route's interface is taken."""
    assert interface_towards(host) == default_interface()


def test_the_kernels_own_choice(monkeypatch):
    """The interface is the one whose address the kernel would send from."""
    interfaces = [name for name in look_at_machine({}).interfaces if name != "lo"]
    own = {name: machine.address_of(name) for name in interfaces}
    name = next((name for name in interfaces if own[name]), None)
    if name is None:
        assert interface_towards("198.51.100.1") == default_interface()
        return
    # A machine reaches its own address over the loopback, from that same address.
    monkeypatch.setattr(machine, "default_interface", lambda: "")
    assert interface_towards("no-such-host.invalid", own[name]) == name


def test_a_dead_name_server_does_not_hold_the_start(monkeypatch):
    """A look-up that doesn't come back is given up after two seconds."""
    monkeypatch.setattr(socket, "gethostbyname", lambda _host: time.sleep(5))
    before = time.monotonic()
    interface_towards("algo-1", "algo-2")
    assert time.monotonic() - before < 3


def test_shared_memory(tmp_path):
    """Its size and what is free of it; a folder that isn't there has none."""
    size, free = shared_memory(str(tmp_path))
    assert size >= free > 0
    assert shared_memory(str(tmp_path / "absent")) == (0, 0)


def test_a_driver_that_never_answers_has_no_gpus(monkeypatch, tmp_path):
    """It costs its time and no more; the checks say what is wrong with it."""
    control = tmp_path / "nvidiactl"
    control.touch()
    library = Library(Script.of(2, H100, host={"nvmlDeviceGetCount_v2": "hang"}))
    install(library)
    monkeypatch.setattr(machine, "_DRIVER_S", 0.2)
    began = time.monotonic()
    assert machine._nvml_count(str(control)) == 0
    assert time.monotonic() - began < 5
    library.released.set()


@pytest.mark.parametrize(
    ("host", "count"),
    [({}, 2), ({"nvmlInitWithFlags": "!9"}, 0), ({"nvmlDeviceGetCount_v2": "!999"}, 0)],
    ids=["well", "no-driver", "no-count"],
)
def test_the_driver_counts_the_gpus(host, count, tmp_path):
    """A driver that is broken has none; without its control device it isn't asked."""
    control = tmp_path / "nvidiactl"
    install(Library(Script.of(2, H100, host=host)))
    assert machine._nvml_count(str(control)) == 0
    control.touch()
    assert machine._nvml_count(str(control)) == count
