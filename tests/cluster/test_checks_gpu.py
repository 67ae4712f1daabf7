"""Hosts whose GPUs are not as they should be: a fake driver in the CPU image says so."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from cluster import Cluster, Host, Job
from fake_nvml import H100, Script, build_library
from fake_nvml.build import LIBRARY, SCRIPT

pytestmark = pytest.mark.docker

INSTANCE, GPUS = "ml.g5.12xlarge", 4
PLACE = "/opt/fake-nvml"
ONCE = 20.0
"""Seconds after which a driver that does not answer is no longer waited for."""


@pytest.fixture
def hosts(tmp_path, code):
    """Makes a job of two hosts, each with a driver that answers by its own script, and a rank."""
    library = tmp_path / "nvml"
    build_library(library, Script.of(0))
    control = tmp_path / "nvidiactl"
    control.touch()
    job = Job(
        tmp_path / "job",
        code=code(
            "import os, time; time.sleep(float(os.environ.get('SLEEP_S', '0'))); print('trained')"
        ),
        program="train.py",
        hosts=2,
        environment={
            "MUSTER_NPROC": "1",
            "LD_LIBRARY_PATH": PLACE,
            SCRIPT: "/opt/ml/input/fake-nvml",
        },
        options=(
            *("--volume", f"{library / LIBRARY}:{PLACE}/{LIBRARY}:ro"),
            *("--volume", f"{control}:/dev/nvidiactl:ro"),
        ),
    )

    def make(second: Script, **environment: str) -> Cluster:
        cluster = Cluster(replace(job, environment={**job.environment, **environment}))
        for host, script in zip(cluster.hosts, (Script.of(GPUS, H100), second), strict=True):
            host.rewrite("resourceconfig", current_instance_type=INSTANCE, instance_groups=[])
            path = host.folder / "input" / "fake-nvml"
            path.write_text(script.flat(), encoding="utf-8")
        return cluster

    return make


def output(cluster: Cluster) -> str:
    return "".join(host.output for host in cluster.hosts)


def second_of(cluster: Cluster) -> Host:
    return cluster.hosts[1]


def test_hosts_with_well_gpus_train(hosts):
    """Nothing is found, and the checks say in one line that they have looked."""
    with hosts(Script.of(GPUS, H100)) as cluster:
        assert cluster.run() == [0, 0], output(cluster)
        assert "trained" in second_of(cluster).output
        (line,) = [line for line in cluster.hosts[0].output.splitlines() if "checks: " in line]
        assert "FAIL" not in line
        assert "UNKNOWN" not in line


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            Script.of(GPUS - 1, H100),
            f"check gpu.count on algo-2: {GPUS - 1} GPUs, {INSTANCE} has {GPUS}",
        ),
        (
            Script.of(GPUS, H100, {2: {"lost": ""}}),
            f"check gpu.lost on algo-2: 1 of {GPUS} GPUs: GPU 2: GpuIsLost",
        ),
        (
            Script.of(GPUS, H100, {3: {"nvmlDeviceGetTotalEccErrors.1.0": "5"}}),
            (
                "check gpu.ecc on algo-2: GPU 3 (GPU-00000003-1111-2222-3333-444444444444, "
                "00000000:86:00.0): 5 uncorrected ECC errors since the driver was loaded"
            ),
        ),
    ],
    ids=["fewer", "lost", "ecc"],
)
def test_one_hosts_gpus_end_the_job_on_all(hosts, script, said):
    """Before a rank has begun, with status 75; every host's failure file names the host and what was seen."""
    with hosts(script) as cluster:
        assert cluster.run() == [75, 75], output(cluster)
        for host in cluster.hosts:
            first, second, *_ = host.failure.splitlines()
            assert first.startswith(said)
            assert "kind=check" in second
            assert "trained" not in host.output
        assert "Start the job again" in second_of(cluster).failure
        assert said.partition(" on ")[0].removeprefix("check ") in cluster.hosts[0].output


def test_a_wedged_driver_costs_its_time_and_no_more(hosts):
    """One question that never returns is UNKNOWN: the leader's table says where, and the job trains."""
    script = Script.of(GPUS, H100, {1: {"nvmlDeviceGetRemappedRows": "hang"}})
    with hosts(script) as cluster:
        began = time.monotonic()
        assert cluster.run() == [0, 0], output(cluster)
        assert ONCE < time.monotonic() - began < ONCE + 25
        wanted = f"the driver has not answered within {ONCE:.0f} s: GPU 1, remapped (algo-2)"
        lines = [line for line in cluster.hosts[0].output.splitlines() if wanted in line]
        assert any("UNKNOWN gpu.nvml" in line for line in lines), output(cluster)
        assert "trained" in second_of(cluster).output


def test_a_driver_that_does_not_begin_holds_nothing_else(hosts):
    """The host counts no GPU after one such time, its checks are UNKNOWN after another."""
    script = Script.of(GPUS, H100, host={"nvmlInitWithFlags": "hang"})
    with hosts(script) as cluster:
        began = time.monotonic()
        assert cluster.run(180) == [0, 0], output(cluster)
        assert time.monotonic() - began < 2 * ONCE + 30
        assert f"has not answered within {ONCE:.0f} s: init (algo-2)" in cluster.hosts[0].output


def test_a_gpu_that_breaks_while_the_ranks_run_ends_the_job_on_all(hosts):
    """XID 79 at t = 3 s on the second host: every host's failure file names it, long before the ranks are over."""
    then = [{"at": 3, "gpu": 2, "event": "8 79"}, {"at": 3, "gpu": 2, "lost": ""}]
    with hosts(Script.of(GPUS, H100, then=then), SLEEP_S="100") as cluster:
        began = time.monotonic()
        assert cluster.run() == [75, 75], output(cluster)
        assert time.monotonic() - began < 60
        for host in cluster.hosts:
            first, second, third, *_ = host.failure.splitlines()
            assert first == (
                "XID 79: the GPU has fallen off the bus on GPU 2 "
                "(GPU-00000002-1111-2222-3333-444444444444) of algo-2"
            )
            assert second == "muster kind=check host=algo-2 rank=- status=75"
            assert third.startswith("Replace this instance")
            assert "trained" not in host.output


def test_an_error_of_a_program_ends_no_job(hosts):
    """XID 31 while the ranks run is a line in its own host's log."""
    script = Script.of(GPUS, H100, then=[{"at": 1, "gpu": 0, "event": "8 31"}])
    with hosts(script, SLEEP_S="5") as cluster:
        assert cluster.run() == [0, 0], output(cluster)
        said = "XID 31: an access to memory that isn't there on GPU 0"
        assert [host.output.count(said) for host in cluster.hosts] == [0, 1]
