import json
import socket

import pytest

from muster.check.finding import Here
from muster.check.told import Network, Told, gpu_names, tell, understood
from muster.model import Machine
from muster.settings import read_settings

WELL = {
    "group": "workers",
    "versions": {"torch": "2.13.0"},
    "gpus": ["NVIDIA H200"],
    "efa": 16,
    "name": "algo-1 boot",
}
NETWORK = {
    "interface": "eth0",
    "address": "10.0.0.1",
    "mtu": 9001,
    "reached": {"algo-2": 0.2},
    "failed": {"algo-3": ["10.0.0.3", 7, "no"]},
    "callers": {"algo-2": "10.0.0.2"},
}


@pytest.fixture
def here(make_job, tmp_path):
    """Return a host with two GPUs, by its driver's files; the machine has three."""
    for number, model in enumerate(("NVIDIA H200", "NVIDIA H200", "NVIDIA T4")):
        folder = tmp_path / "driver" / "nvidia" / "gpus" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        text = f"Model: \t\t {model}\nIRQ:   \t\t 130\n"
        (folder / "information").write_text(text, encoding="utf-8")
    boot = tmp_path / "sys" / "kernel" / "random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("b-0-0-t\n", encoding="ascii")
    job = make_job(machine=Machine(cpus=8, gpus=2, interfaces=("eth0",)))
    return Here(job, read_settings({}), {}, 1, "fast", proc=str(tmp_path), sys="/nowhere")


def test_what_a_host_tells(here):
    """It can be sent, and be understood."""
    told = json.loads(json.dumps(tell(here)))
    assert understood({"algo-1": told}) == {
        "algo-1": Told(
            group="homogeneousCluster",
            versions=told["versions"],
            gpus=("NVIDIA H200", "NVIDIA H200"),
            name=f"{socket.gethostname()} b-0-0-t",
        )
    }


def test_what_the_job_has_installed_counts(make_job, tmp_path):
    """Versions are told as the ranks will find them, not as the checks found them at first."""
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    (site / "torch-2.13.0.dist-info").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    python = str(tmp_path / "bin" / "python3")
    here = Here(make_job(), read_settings({"MUSTER_PYTHON": python}), {}, 1, "fast")
    before = tell(here)["versions"]
    (site / "horovod-0.28.1.dist-info").mkdir()
    assert tell(here)["versions"] == before | {"horovod": "0.28.1"}


def test_a_host_that_has_a_name_for_nccl(make_job):
    """NCCL goes by it, and by nothing else."""
    here = Here(make_job(), read_settings({}), {"NCCL_HOSTID": "algo-1"}, 1, "fast")
    assert tell(here)["name"] == "algo-1"


def test_gpus_without_the_drivers_files(make_job):
    """They are counted all the same."""
    here = Here(make_job(gpus=2), read_settings({}), {}, 1, "fast", proc="/nowhere")
    assert gpu_names(here) == ["", ""]


def test_the_network_travels():
    """With what came of the calls; without them it took no part."""
    told = Told.unpack({**WELL, "network": NETWORK})
    assert told.network == Network(
        "eth0",
        "10.0.0.1",
        9001,
        reached={"algo-2": 0.2},
        failed={"algo-3": ("10.0.0.3", 7, "no")},
        callers={"algo-2": "10.0.0.2"},
        called=True,
    )
    silent = {name: NETWORK[name] for name in ("interface", "address", "mtu")}
    found = Told.unpack({**WELL, "network": silent}).network
    assert found is not None
    assert not found.called


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        [],
        {},
        {**WELL, "versions": 5},
        {**WELL, "gpus": 5},
        {**WELL, "efa": "many"},
        {**WELL, "network": 5},
        {**WELL, "network": {"mtu": 1500}},
        {**WELL, "network": {**NETWORK, "failed": {"algo-3": "no"}}},
        {**WELL, "network": {**NETWORK, "reached": {"algo-3": "fast"}}},
    ],
)
def test_what_makes_no_sense(value):
    """The host counts as one that has told nothing."""
    assert list(understood({"algo-1": WELL, "algo-2": value})) == ["algo-1"]
