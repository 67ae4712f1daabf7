import json
import os
import subprocess

import pytest
from fake_nvml import A100, H100, V100, Library, Script, build_library
from fake_nvml.looking import command, lines_of

from muster.check.gpu.facts import FACTS, Missing, unpack


def see(script: Script, absent=()):
    """Return the GPUs that the probe finds."""
    lines = lines_of(Library(script, absent))
    return [unpack(line["gpu"], line["facts"]) for line in lines if "facts" in line]


@pytest.mark.parametrize("kind", [H100, A100, V100], ids=["h100", "a100", "v100"])
def test_every_fact_has_a_value_or_the_error(kind):
    """Nothing is left out: what a GPU doesn't have is told as such."""
    gpus = see(Script.of(2, kind))
    assert [gpu.index for gpu in gpus] == [0, 1]
    for name in FACTS:
        assert getattr(gpus[0], name) != Missing("NotAsked"), name


def test_values_are_nvmls():
    """Each answer is in its own fact, whatever the shape of NVML's structure."""
    changes = {
        "nvmlDeviceGetTotalEccErrors.1.0": "7",
        "nvmlDeviceGetTotalEccErrors.0.0": "9",
        "nvmlDeviceGetRemappedRows": "1 2 0 1",
        "nvmlDeviceGetRowRemapperHistogram": "5 4 3 2 1",
        "nvmlDeviceGetRetiredPages": "3 4",
        "nvmlDeviceGetRetiredPagesPendingStatus": "1",
        "field.230": "2",
        "nvmlDeviceGetNvLinkState": "1 0 1",
        "nvmlDeviceGetNvLinkErrorCounter": "5 6 7",
        "nvmlDeviceGetGpuFabricInfoV": "2 3 4",
        "nvmlDeviceGetCurrPcieLinkWidth": "8",
        "nvmlDeviceGetComputeRunningProcesses_v3": "77 1048576 78 0",
        "nvmlDeviceGetMigMode": "1 1",
    }
    gpu = see(Script.of(1, H100, {0: changes}))[0]
    assert (gpu.uncorrected, gpu.corrected, gpu.retired, gpu.retiring) == (7, 9, 7, 1)
    assert (gpu.remapped, gpu.spare, gpu.recovery) == ((1, 2, 0, 1), (5, 4, 3, 2, 1), 2)
    assert (gpu.links, gpu.link_errors, gpu.fabric) == ((1, 0, 1), (5, 6, 7), (2, 3, 4))
    assert (gpu.pcie, gpu.capability, gpu.mig) == ((5, 5, 8, 16), (9, 0), 1)
    assert gpu.processes == ((77, 1048576), (78, 0))
    assert gpu.title == "GPU 0 (GPU-00000000-1111-2222-3333-444444444444, 00000000:53:00.0)"


def test_a_field_that_is_not_supported_is_not_a_zero():
    """Field 230 has its own return code: the value beside it would read as healthy."""
    gpu = see(Script.of(1, V100))[0]
    assert gpu.recovery == Missing("NotSupported")


def test_an_old_driver_lacks_functions():
    """A missing symbol is a fact that isn't there; where an older name is known, it is asked."""
    older = {
        "nvmlDeviceGetCurrentClocksThrottleReasons": "8",
        "nvmlDeviceGetTemperature.0": "55",
    }
    absent = (
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetTemperatureV",
    )
    gpu = see(Script.of(1, A100, {0: older}), absent)[0]
    assert gpu.remapped == Missing("FunctionNotFound")
    assert (gpu.clocks, gpu.temperature) == (8, 55)


def test_text_that_is_no_utf8_is_only_one_fact(monkeypatch):
    """nvidia-ml-py fails to decode it. Where it returns bytes, as some versions do, they are read."""
    script = Script.of(1, H100, {0: {"nvmlDeviceGetName": r"GPU \xff"}})
    gpu = see(script)[0]
    assert gpu.name == Missing("UnicodeDecodeError")
    assert gpu.uuid == "GPU-00000000-1111-2222-3333-444444444444"
    monkeypatch.setattr("pynvml.nvmlDeviceGetName", lambda _: b"GPU \xff")
    assert see(script)[0].name == "GPU \ufffd"


def test_a_bus_of_bytes_is_text():
    """A structure's characters are bytes in every version."""
    gpu = see(Script.of(1, H100, {0: {"nvmlDeviceGetPciInfo_v3": "00000000:é3:00.0"}}))[0]
    assert gpu.bus == "00000000:é3:00.0"


def test_a_gpu_that_can_not_be_asked_has_one_error_for_all():
    """Its neighbours are asked all the same."""
    gpus = see(Script.of(3, H100, {1: {"nvmlDeviceGetHandleByIndex_v2": "!15"}}))
    assert [gpu.lost for gpu in gpus] == ["", "GpuIsLost", ""]
    assert gpus[1].uncorrected == Missing("GpuIsLost")


@pytest.mark.parametrize(
    ("question", "answer", "lost"),
    [
        ("nvmlDeviceGetPersistenceMode", "!15", "GpuIsLost"),
        ("nvmlDeviceGetPersistenceMode", "!16", "ResetRequired"),
        ("nvmlDeviceGetUUID", "!999", "Unknown"),
        ("nvmlDeviceGetPersistenceMode", "!999", ""),
        ("nvmlDeviceGetUUID", "!4", ""),
    ],
    ids=["lost", "reset", "unknown-name", "unknown-feature", "not-permitted"],
)
def test_who_is_lost(question, answer, lost):
    """Lost to any question, or of unknown trouble with what every GPU answers."""
    assert see(Script.of(1, H100, {0: {question: answer}}))[0].lost == lost


def test_an_error_that_nobody_knows_has_its_number():
    """A newer driver's errors have no name in an older nvidia-ml-py."""
    gpu = see(Script.of(1, H100, {0: {"nvmlDeviceGetEccMode": "!77"}}))[0]
    assert gpu.ecc_mode == Missing("code 77")


@pytest.mark.parametrize("kind", [H100, A100, V100], ids=["h100", "a100", "v100"])
def test_both_fakes_answer_alike(kind, tmp_path):
    """The probe in a process of its own, with the C library, prints what it prints here."""
    later = [{"at": 0, "gpu": 1, "lost": ""}]
    odd = {0: {"nvmlDeviceGetComputeRunningProcesses_v3": "77 1048576 78 5", "field.230": "!999"}}
    script = Script.from_json(Script.of(3, kind, odd, then=later).to_json())
    done = subprocess.run(
        command("muster.check.gpu.probe"),
        env={**os.environ, **build_library(tmp_path / "nvml", script)},
        capture_output=True,
        timeout=60,
        check=True,
    )
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    assert printed == lines_of(Library(script))
    assert printed[-1] == {"done": True}
