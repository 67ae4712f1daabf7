import dataclasses

import pytest

from muster.check import fabric as module
from muster.check.efa import CHECKS, Wanted, judge_devices, judge_locked, judge_plugin
from muster.check.fabric import (
    Fabric,
    efa_devices,
    expected_devices,
    offered_devices,
)
from muster.check.finding import Here
from muster.plan.instances import read_instances
from muster.settings import read_settings

TWO = ("algo-1", "algo-2")
GOOD = Fabric(("rdmap0s6", "rdmap0s7"), 2, nodes=2, offered=2, plugin="/p/libnccl-net.so")
USED, ALONE = Wanted("auto", used=True), Wanted("auto", used=False)
REQUIRED, OFF = Wanted("require", used=False), Wanted("off", used=True)
NONE = Fabric((), None)


def changed(**changes) -> Fabric:
    return dataclasses.replace(GOOD, **changes)


@pytest.mark.parametrize(
    ("found", "want", "status"),
    [
        (GOOD, USED, "PASS"),
        (changed(offered=None), USED, "PASS"),
        (changed(expected=None), USED, "PASS"),
        (changed(expected=4), USED, "FAIL"),
        (changed(expected=4), ALONE, "WARN"),
        (changed(expected=4), REQUIRED, "FAIL"),
        (changed(expected=4), OFF, "SKIP"),
        (changed(nodes=0), USED, "FAIL"),
        (changed(offered=1), USED, "FAIL"),
        (changed(offered=0), ALONE, "WARN"),
        (changed(devices=(), nodes=0, offered=None), USED, "FAIL"),
        (NONE, USED, "SKIP"),
        (NONE, REQUIRED, "FAIL"),
        (NONE, OFF, "SKIP"),
    ],
)
def test_devices(found, want, status):
    """Fewer than the instance has, or that can't be opened, end a job that would use them."""
    assert judge_devices(found, want).status == status


def test_the_evidence_has_all_counts():
    """Devices of those expected, their files, and what libfabric offers."""
    found = judge_devices(changed(expected=4, nodes=1), USED)
    assert found.evidence == "2 of 4 EFA devices, 1 device files, libfabric offers 2"
    assert "MUSTER_EFA=off" in found.remedy


@pytest.mark.parametrize(
    ("found", "want", "status"),
    [
        (GOOD, USED, "PASS"),
        (changed(plugin=""), USED, "WARN"),
        (changed(plugin=""), REQUIRED, "FAIL"),
        (changed(plugin=""), OFF, "SKIP"),
        (changed(devices=(), plugin=""), USED, "WARN"),
        (NONE, USED, "SKIP"),
        (NONE, REQUIRED, "FAIL"),
    ],
)
def test_the_plugin(found, want, status):
    """Without it NCCL takes TCP in silence."""
    assert judge_plugin(found, want).status == status


@pytest.mark.parametrize(
    ("locked", "want", "status"),
    [
        (-1, USED, "PASS"),
        (16 * 2**30, USED, "PASS"),
        (65536, USED, "WARN"),
        (65536, REQUIRED, "FAIL"),
        (65536, OFF, "SKIP"),
    ],
)
def test_locked_memory(locked, want, status):
    """Buffers of 64 KiB are what Docker gives."""
    assert judge_locked(changed(locked=locked), want).status == status
    assert judge_locked(NONE, want).status == "SKIP"


def device(sys, name: str, vendor: str, kind: str) -> None:
    folder = sys / "class" / "infiniband" / name / "device"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n", encoding="ascii")
    (folder / "device").write_text(f"{kind}\n", encoding="ascii")


def test_efa_is_told_by_its_ids(tmp_path):
    """Other devices may have names of the same form, as on ml.p6-b200."""
    device(tmp_path, "rdmap0s6", "0x1d0f", "0xefa3")
    device(tmp_path, "rdmap0s7", "0x1d0f", "0xefa0")
    device(tmp_path, "rdmap0s8", "0x1d0f", "0xec20")
    device(tmp_path, "mlx5_0", "0x15b3", "0x101e")
    (tmp_path / "class" / "infiniband" / "odd").mkdir()
    assert efa_devices(str(tmp_path)) == ("rdmap0s6", "rdmap0s7")
    assert efa_devices(str(tmp_path / "nowhere")) == ()


OLD = """provider: efa
    fabric: EFA-fe80::10d8:baff:fec9:6c1
    domain: rdmap16s27-rdm
    version: 111.20
    type: FI_EP_RDM
    protocol: FI_PROTO_EFA
provider: efa
    fabric: EFA-fe80::10d8:baff:fec9:6c1
    domain: rdmap16s27-dgrm
    type: FI_EP_DGRAM
provider: efa
    fabric: EFA-fe80::1011:66ff:feeb:c5af
    domain: rdmap32s27-rdm
    type: FI_EP_RDM
provider: tcp
    fabric: 10.0.0.0/16
    domain: eth0
"""
NEW = """provider: efa
    fabric: efa-direct
    domain: rdmap47s0-rdm
    version: 201.0
    type: FI_EP_RDM
    protocol: FI_PROTO_EFA
provider: efa
    fabric: efa
    domain: rdmap47s0-rdm
    version: 201.0
    type: FI_EP_RDM
    protocol: FI_PROTO_EFA
provider: efa
    fabric: efa
    domain: rdmap47s0-dgrm
    version: 201.0
    type: FI_EP_DGRAM
    protocol: FI_PROTO_EFA
"""


@pytest.mark.parametrize(("text", "count"), [(OLD, 2), (NEW, 1), ("", 0)])
def test_what_libfabric_offers(text, count):
    """Newer versions have each device as efa and as efa-direct, all have it for datagrams: it is one."""
    assert offered_devices(text) == count


@pytest.mark.parametrize(
    ("instance", "count"),
    [("ml.p5.48xlarge", 32), ("ml.p6-b200.48xlarge", 8), ("ml.p5.4xlarge", None), ("local", None)],
)
def test_what_an_instance_has(instance, count):
    """By the table; of others it is not known."""
    assert expected_devices(instance, read_instances()) == count
    assert expected_devices(instance, {}) is None


@pytest.fixture
def here(make_job, tmp_path, monkeypatch):
    """Return a function that makes a host with files of its own, and no loader's cache."""
    monkeypatch.setattr(module, "loader_cache", lambda: None)
    monkeypatch.setattr(module, "_FI_INFO", "/nowhere")

    def make(env=None, variables=None, gpus=8, instance="ml.p4d.24xlarge") -> Here:
        job = make_job(hosts=TWO, gpus=gpus, instance_type=instance)
        settings = read_settings(env or {})
        roots = {"sys": str(tmp_path / "sys"), "dev": str(tmp_path / "dev")}
        return Here(job, settings, variables or {}, 8, "fast", **roots)

    return make


def looked(here: Here) -> dict[str, str]:
    return {check.name: check.look(here).status for check in CHECKS if not check.together}


def test_a_host_with_efa(here, tmp_path):
    """Four devices with their files, the plugin in LD_LIBRARY_PATH, and a libfabric that offers all."""
    nodes = tmp_path / "dev" / "infiniband"
    nodes.mkdir(parents=True)
    for number in range(4):
        device(tmp_path / "sys", f"rdmap{number}s27", "0x1d0f", "0xefa1")
        (nodes / f"uverbs{number}").touch()
    (nodes / "rdma_cm").touch()
    libraries = tmp_path / "lib"
    libraries.mkdir()
    (libraries / "libnccl-net.so").touch()
    domains = "".join(f"    domain: rdmap{number}s27-rdm\\n" for number in range(4))
    program = tmp_path / "fi_info"
    program.write_text(f"#!/bin/sh\nprintf 'provider: efa\\n{domains}'\n", encoding="ascii")
    program.chmod(0o755)
    variables = {"LD_LIBRARY_PATH": str(libraries), "PATH": str(tmp_path)}
    made = here(variables=variables)
    found = module.fabric(made)
    assert found == Fabric(
        tuple(f"rdmap{number}s27" for number in range(4)),
        *(4, 4, 4, str(libraries / "libnccl-net.so")),
        locked=found.locked,
    )
    assert looked(made) | {"efa.memory": "-"} == {
        "efa.devices": "PASS",
        "efa.plugin": "PASS",
        "efa.memory": "-",
    }


def test_a_host_that_should_have_efa(here):
    """An ml.p4d without any device is no place for a job of several hosts."""
    assert looked(here()) == {"efa.devices": "FAIL", "efa.plugin": "WARN", "efa.memory": "SKIP"}
    assert set(looked(here({"MUSTER_EFA": "off"})).values()) == {"SKIP"}


def test_a_host_without_efa(here):
    """Nothing is looked for, and nothing is started."""
    assert set(looked(here(instance="ml.g5.xlarge")).values()) == {"SKIP"}
    assert set(looked(here(gpus=0)).values()) == {"SKIP"}


def test_a_job_that_requires_efa(here, tmp_path):
    """It is looked for wherever the job is, and what is there is not said to be missing."""
    asked = {"env": {"MUSTER_EFA": "require"}, "gpus": 0, "instance": "local"}
    assert looked(here(**asked)) == {
        "efa.devices": "FAIL",
        "efa.plugin": "FAIL",
        "efa.memory": "SKIP",
    }
    (tmp_path / "libnccl-net.so").touch()
    found = looked(here(**asked, variables={"LD_LIBRARY_PATH": str(tmp_path)}))
    assert found["efa.plugin"] == "PASS"


def test_libfabric_that_fails(here, tmp_path):
    """It offers nothing."""
    device(tmp_path / "sys", "rdmap0s27", "0x1d0f", "0xefa1")
    program = tmp_path / "fi_info"
    program.write_text("#!/bin/sh\necho 'fi_getinfo: -61' >&2\nexit 61\n", encoding="ascii")
    program.chmod(0o755)
    assert module.fabric(here(variables={"PATH": str(tmp_path)})).offered == 0
    program.write_text("not a program", encoding="ascii")
    assert module.fabric(here(variables={"PATH": str(tmp_path)})).offered is None


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("", "libnccl-net.so"),
        ("ofi", "libnccl-net-ofi.so"),
        ("{}/libnccl-net-ofi.so", "libnccl-net-ofi.so"),
        ("{}/gone.so", ""),
        ("none", ""),
        ("other", ""),
    ],
)
def test_the_plugin_that_is_named(here, tmp_path, wanted, found):
    """NCCL_NET_PLUGIN is a path, a name or a part of one."""
    for name in ("libnccl-net.so", "libnccl-net-ofi.so"):
        (tmp_path / name).touch()
    variables = {"LD_LIBRARY_PATH": str(tmp_path), "NCCL_NET_PLUGIN": wanted.format(tmp_path)}
    path = module.fabric(here(variables=variables)).plugin
    expected = {str(tmp_path / found)} if found else {""}
    if not wanted:
        expected = {str(tmp_path / name) for name in ("libnccl-net.so", "libnccl-net-ofi.so")}
    assert path in expected
