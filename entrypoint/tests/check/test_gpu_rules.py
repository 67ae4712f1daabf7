import dataclasses

import pytest
from fake_nvml import A100, H100, V100, Library, Script
from fake_nvml.looking import lines_of

from muster.check.finding import Finding, Here, unknown
from muster.check.gpu import CHECKS, asking, limits, looks, rows
from muster.check.gpu.facts import Gpu
from muster.check.gpu.links import nvlink_growth
from muster.check.gpu.state import memory_in_time
from muster.settings import read_settings

ROWS = {check.name.partition(".")[2]: check for check in CHECKS}
CUDA_13 = {
    "cuda": "13.0",
    "architectures": ["sm_75", "sm_80", "sm_86", "sm_90", "sm_90a", "sm_100", "sm_120"],
    "minimum_driver": "580.65.06",
}
P5, P4D, P3 = "ml.p5.48xlarge", "ml.p4d.24xlarge", "ml.p3.16xlarge"
ECC, CORRECTED = "nvmlDeviceGetTotalEccErrors.1.0", "nvmlDeviceGetTotalEccErrors.0.0"
LINKS = "nvmlDeviceGetNvLinkState"
REMAP, SPARE = "nvmlDeviceGetRemappedRows", "nvmlDeviceGetRowRemapperHistogram"
CLOCKS = "nvmlDeviceGetCurrentClocksEventReasons"


@pytest.fixture
def judge(make_job, monkeypatch):
    """Return a function that runs one check on a scripted driver."""
    monkeypatch.setattr(looks, "image_cuda", lambda: CUDA_13)
    monkeypatch.setattr(rows, "absence", lambda _: None)
    monkeypatch.setattr(looks, "MEMORY_WAIT_S", 0.0)

    def run(
        name: str, script: Script, instance: str = P5, trouble: Finding | None = None, **env: str
    ) -> Finding:
        here = Here(make_job(instance_type=instance), read_settings({}), env, 1, "fast")
        look = asking.read(here, 0, lines_of(Library(script)), 20)
        look = dataclasses.replace(look, trouble=trouble or look.trouble)
        monkeypatch.setattr(asking, "ask", lambda _: look)
        return ROWS[name].look(here)

    return run


def one(kind, **changes: str) -> Script:
    """Return 8 GPUs, of which the sixth has these answers."""
    return Script.of(8, kind, {5: changes} if changes else None)


@pytest.mark.parametrize("kind", [H100, A100, V100], ids=["p5", "p4d", "p3"])
@pytest.mark.parametrize("name", ROWS)
def test_a_healthy_host_has_no_warning(judge, name, kind):
    """Each check is a PASS, or a SKIP for what the GPU doesn't have; the image is the p3's alone to fail."""
    instance = {id(H100): P5, id(A100): P4D, id(V100): P3}[id(kind)]
    found = judge(name, one(kind), instance)
    if (name, kind) == ("arch", V100):
        assert found.status == "FAIL"
    else:
        assert found.status in ("PASS", "SKIP")
        assert found.evidence


@pytest.mark.parametrize(
    ("name", "changes", "status", "evidence"),
    [
        ("ecc", {ECC: "3"}, "FAIL", "3 uncorrected ECC errors since the driver was loaded"),
        ("ecc", {ECC: "!4"}, "UNKNOWN", "ECC counter: NVML says NoPermission"),
        ("ecc_corrected", {CORRECTED: "20000001"}, "WARN", "20000001 corrected ECC errors"),
        ("ecc_corrected", {CORRECTED: "!999"}, "UNKNOWN", "ECC counter: NVML says Unknown"),
        ("ecc_mode", {"nvmlDeviceGetEccMode": "0 0"}, "FAIL", "ECC is off"),
        ("ecc_mode", {"nvmlDeviceGetEccMode": "!999"}, "UNKNOWN", "ECC: NVML says Unknown"),
        ("recovery", {"field.230": "1"}, "FAIL", "the driver asks for a reset of the GPU"),
        ("recovery", {"field.230": "2"}, "FAIL", "the driver asks for a reboot of the host"),
        ("recovery", {"field.230": "3"}, "WARN", "no more traffic with other GPUs"),
        ("recovery", {"field.230": "4"}, "FAIL", "no more traffic with other GPUs, and a reset"),
        ("recovery", {"field.230": "5"}, "WARN", "a repair of the IMEX domain"),
        ("recovery", {"field.230": "6"}, "FAIL", "a reset of its bus"),
        ("recovery", {"field.230": "7"}, "FAIL", "a reboot of the system"),
        ("recovery", {"field.230": "8"}, "WARN", "the driver asks for action 8"),
        ("recovery", {"field.230": "!999"}, "UNKNOWN", "NVML says Unknown"),
        ("remap", {REMAP: "0 1 0 1"}, "FAIL", "could not be replaced"),
        ("remap", {REMAP: "0 512 0 0"}, "FAIL", "512 rows of its memory were replaced"),
        ("remap", {REMAP: "0 1 1 0"}, "WARN", "waits for a reset"),
        ("remap", {SPARE: "9 0 0 0 1"}, "WARN", "1 banks of its memory have no spare row left"),
        ("remap", {REMAP: "!999"}, "UNKNOWN", "row remapping: NVML says Unknown"),
        ("clocks", {CLOCKS: str(0x08)}, "WARN", "slowed at rest by hardware slowdown (mask 0x8)"),
        ("clocks", {CLOCKS: str(0x20)}, "WARN", "heat (software)"),
        ("clocks", {CLOCKS: str(0x40)}, "WARN", "heat (hardware)"),
        ("clocks", {CLOCKS: str(0x81)}, "WARN", "power brake (mask 0x81)"),
        ("clocks", {CLOCKS: "!999"}, "UNKNOWN", "NVML says Unknown"),
        ("temperature", {"nvmlDeviceGetTemperatureV.0": "82"}, "WARN", "82 C, slows down at 87 C"),
        ("temperature", {"nvmlDeviceGetTemperatureV.0": "!999"}, "UNKNOWN", "temperature: NVML"),
        ("temperature", {"nvmlDeviceGetTemperatureThreshold.1": "!999"}, "UNKNOWN", "slowdown"),
        ("persistence", {"nvmlDeviceGetPersistenceMode": "!999"}, "UNKNOWN", "persistence mode"),
        ("nvlink", {LINKS: "1 1 1"}, "FAIL", "3 NVLinks are up, the instance has 18"),
        ("nvlink", {LINKS: " ".join("0" * 18)}, "FAIL", "0 NVLinks are up, the instance has 18"),
        ("nvlink", {LINKS: "!3"}, "FAIL", "no NVLink, the instance has 18"),
        ("nvlink", {LINKS: "!999"}, "UNKNOWN", "NVLink: NVML says Unknown"),
        ("nvlink_errors", {"nvmlDeviceGetNvLinkErrorCounter": "3 2 0"}, "WARN", "3 replays"),
        ("nvlink_errors", {"nvmlDeviceGetNvLinkErrorCounter": "!999"}, "UNKNOWN", "NVML says"),
        ("fabric", {"nvmlDeviceGetGpuFabricInfoV": "1 0 0"}, "FAIL", "it has not begun to join"),
        ("fabric", {"nvmlDeviceGetGpuFabricInfoV": "2 0 0"}, "FAIL", "it is still joining"),
        ("fabric", {"nvmlDeviceGetGpuFabricInfoV": "3 999 0"}, "FAIL", "NVML error 999"),
        ("fabric", {"nvmlDeviceGetGpuFabricInfoV": "3 0 1"}, "WARN", "less bandwidth"),
        ("fabric", {"nvmlDeviceGetGpuFabricInfoV": "3 0 1280"}, "WARN", "a wrong configuration"),
        ("fabric", {"nvmlDeviceGetGpuFabricInfoV": "!999"}, "UNKNOWN", "NVML says Unknown"),
        ("pcie", {"nvmlDeviceGetCurrPcieLinkWidth": "8"}, "WARN", "PCIe x8 of x16"),
        ("pcie", {"nvmlDeviceGetCurrPcieLinkWidth": "!999"}, "UNKNOWN", "NVML says Unknown"),
        (
            "memory",
            {"nvmlDeviceGetComputeRunningProcesses_v3": "77 1073741824"},
            "FAIL",
            "4 of 81559 MiB are in use: process 77 (1024 MiB)",
        ),
        (
            "memory",
            {"nvmlDeviceGetMemoryInfo_v2": f"{2**30} {2**33}"},
            "WARN",
            "1024 of 8192 MiB are in use, by nobody that this container sees",
        ),
        ("memory", {"nvmlDeviceGetMemoryInfo_v2": "!4"}, "UNKNOWN", "NVML says NoPermission"),
        (
            "arch",
            {"nvmlDeviceGetCudaComputeCapability": "7 0"},
            "FAIL",
            "compute capability 7.0; the image's torch is built for 7.5, 8.0, 8.6, 9.0, 10.0, 12.0",
        ),
        ("arch", {"nvmlDeviceGetCudaComputeCapability": "!999"}, "UNKNOWN", "NVML says Unknown"),
        ("lost", {"lost": ""}, "FAIL", "1 of 8 GPUs: GPU 5: GpuIsLost"),
        (
            "lost",
            {"nvmlDeviceGetMigMode": "!15"},
            "FAIL",
            "1 of 8 GPUs: GPU 5 (GPU-00000005-1111-2222-3333-444444444444, 00000000:A8:00.0): GpuIsLost",
        ),
    ],
)
def test_one_gpu_of_eight_has_it(judge, name, changes, status, evidence):
    """The host's finding is the worst GPU's, with its names; there is something to do for each WARN and FAIL."""
    found = judge(name, one(H100, **changes))
    assert found.status == status
    assert "GPU 5" in found.evidence
    assert evidence in found.evidence
    assert bool(found.remedy) == (status in ("WARN", "FAIL"))


@pytest.mark.parametrize(
    ("changes", "status", "evidence"),
    [
        ({"nvmlDeviceGetRetiredPages": "60 0"}, "FAIL", "60 pages of its memory are out of use"),
        ({"nvmlDeviceGetRetiredPages": "30 30"}, "FAIL", "60 pages"),
        ({"nvmlDeviceGetRetiredPages": "59 0"}, "PASS", "59 pages"),
        ({"nvmlDeviceGetRetiredPagesPendingStatus": "1"}, "FAIL", "waits for a restart"),
        ({"nvmlDeviceGetRetiredPages": "!999"}, "UNKNOWN", "page retirement: NVML says Unknown"),
    ],
)
def test_pages_of_older_gpus(judge, changes, status, evidence):
    """A V100 takes pages out of use, and has no rows to replace."""
    found = judge("pages", Script.of(1, V100, {0: changes}), P3)
    assert found.status == status
    assert evidence in found.evidence


def test_without_ecc_only_training_instances_fail(judge):
    """A workstation's GPU has none by default: that is worth a warning."""
    off = one(H100, nvmlDeviceGetEccMode="0 0")
    assert judge("ecc_mode", off, "ml.g5.48xlarge").status == "WARN"
    assert judge("ecc_mode", off, "local_gpu").status == "WARN"


def test_gpus_that_are_alike_are_told_once(judge):
    """All eight, or those that have it: figures, and no list of the same sentence."""
    all_off = Script.of(8, H100, {key: {CLOCKS: "64"} for key in range(8)})
    assert (
        judge("clocks", all_off).evidence
        == "all 8 GPUs: slowed at rest by heat (hardware) (mask 0x40)"
    )
    two = judge("ecc", Script.of(8, H100, {1: {ECC: "1"}, 2: {ECC: "4"}})).evidence
    assert [part.partition(" (")[0] for part in two.split("; ")] == ["GPU 1", "GPU 2"]


def test_a_lost_gpu_is_told_once(judge):
    """gpu.lost fails; the other checks judge those that answer, and are UNKNOWN where none does."""
    script = one(H100, lost="")
    assert (
        judge("ecc", script).evidence
        == "all 7 GPUs: 0 uncorrected ECC errors since the driver was loaded"
    )
    gone = Script.of(1, H100, {0: {"lost": ""}})
    assert judge("ecc", gone) == unknown("no GPU answers")


@pytest.mark.parametrize("name", ROWS)
def test_a_driver_that_stopped_answering_passes_nothing(judge, name):
    """What it had told until then may fail; nothing of it is a PASS, or a SKIP."""
    stopped = unknown("the driver has not answered within 20 s: GPU 8, memory")
    assert judge(name, Script.of(8, H100), trouble=stopped) == stopped
    if name == "ecc":
        assert judge(name, one(H100, **{ECC: "1"}), trouble=stopped).status == "FAIL"


@pytest.mark.parametrize(
    ("gpus", "instance", "env", "status", "evidence"),
    [
        (8, P5, {}, "PASS", "8 GPUs, ml.p5.48xlarge has 8: GPU-00000000-1111"),
        (7, P5, {}, "FAIL", "7 GPUs, ml.p5.48xlarge has 8: GPU-00000000-1111"),
        (0, P5, {}, "FAIL", "0 GPUs, ml.p5.48xlarge has 8"),
        (4, "ml.g5.12xlarge", {}, "PASS", "4 GPUs, ml.g5.12xlarge has 4"),
        (3, "ml.g5.12xlarge", {}, "FAIL", "3 GPUs, ml.g5.12xlarge has 4"),
        (1, "ml.p5.4xlarge", {}, "PASS", "1 GPU, ml.p5.4xlarge has 1"),
        (2, "ml.p9.48xlarge", {}, "SKIP", "2 GPUs; how many ml.p9.48xlarge has isn't known"),
        (2, "", {}, "SKIP", "2 GPUs; how many this host has isn't known"),
        (8, P5, {"CUDA_VISIBLE_DEVICES": "0,1"}, "PASS", "8 GPUs"),
        (7, P5, {"CUDA_VISIBLE_DEVICES": "0,1"}, "FAIL", "7 GPUs"),
        (8, P5, {"CUDA_VISIBLE_DEVICES": "0,9,1"}, "WARN", "names '9', which isn't here: 1 of 8"),
    ],
)
def test_count(judge, gpus, instance, env, status, evidence):
    """The machine has what its type has, whoever sees it; every GPU's UUID is in the evidence."""
    found = judge("count", Script.of(gpus, H100), instance, **env)
    assert found.status == status
    assert evidence in found.evidence


@pytest.mark.parametrize("name", ["ecc", "arch", "memory", "lost"])
def test_only_visible_gpus_count(judge, name):
    """A broken GPU that the job doesn't use is not its trouble."""
    broken = one(
        H100,
        **{
            ECC: "1",
            "nvmlDeviceGetCudaComputeCapability": "3 5",
            "nvmlDeviceGetComputeRunningProcesses_v3": "7 7",
            **({"lost": ""} if name == "lost" else {}),
        },
    )
    assert judge(name, broken).status == "FAIL"
    assert judge(name, broken, CUDA_VISIBLE_DEVICES="0,1,2").status == "PASS"
    assert judge(name, broken, CUDA_VISIBLE_DEVICES="5").status == "FAIL"
    assert judge(name, broken, CUDA_VISIBLE_DEVICES="").status == "SKIP"


@pytest.mark.parametrize(
    ("kind", "driver", "status", "remedy"),
    [
        (H100, "580.65.06", "PASS", ""),
        (H100, "581.1", "PASS", ""),
        (H100, "580.65", "FAIL", "muster/ddp:gpu-cu126 works here (docs/gpus.md)."),
        (H100, "535.183.01", "FAIL", "muster/ddp:gpu-cu126 works here (docs/gpus.md)."),
        (
            H100,
            "470.1",
            "FAIL",
            "No image of muster works here: choose an instance with a newer driver (docs/gpus.md).",
        ),
    ],
)
def test_driver(judge, kind, driver, status, remedy):
    """Older than the image's CUDA wants: the tag is named that runs on these GPUs with this driver."""
    found = judge("driver", Script.of(2, kind, host={"nvmlSystemGetDriverVersion": driver}))
    assert (found.status, found.remedy) == (status, remedy)
    assert found.evidence == f"driver {driver}; the image's CUDA 13.0 needs 580.65.06"


def test_driver_without_a_version(judge):
    """What can't be read is UNKNOWN."""
    script = Script.of(1, H100, host={"nvmlSystemGetDriverVersion": "!999"})
    assert judge("driver", script) == unknown("the driver's version: NVML says Unknown")


@pytest.mark.parametrize("name", ["driver", "arch"])
def test_an_image_without_cuda_is_not_compared(judge, name, monkeypatch):
    """Outside an image of muster nothing is known of torch's build."""
    monkeypatch.setattr(looks, "image_cuda", dict)
    assert judge(name, Script.of(1, V100)).status == "SKIP"


@pytest.mark.parametrize(
    ("capability", "version", "status", "remedy"),
    [
        ("8 9", "580.95.05", "PASS", ""),
        ("10 3", "580.95.05", "PASS", ""),
        ("7 0", "580.95.05", "FAIL", "muster/ddp:gpu-cu126 works here (docs/gpus.md)."),
        ("3 5", "580.95.05", "FAIL", "No image of muster works here: choose another GPU"),
        ("7 0", "470.1", "FAIL", "No image of muster works here: choose another GPU"),
    ],
)
def test_arch(judge, capability, version, status, remedy):
    """Code runs on its own generation and no older GPU; the tag is named that has code for this one."""
    changes = {0: {"nvmlDeviceGetCudaComputeCapability": capability}}
    script = Script.of(1, H100, changes, host={"nvmlSystemGetDriverVersion": version})
    found = judge("arch", script)
    assert found.status == status
    assert found.remedy.startswith(remedy)


def test_ptx_runs_on_newer_gpus(judge, monkeypatch):
    """compute_90 is text that the driver translates for every GPU after it."""
    built = {"cuda": "13.0", "architectures": ["sm_80", "compute_90"]}
    monkeypatch.setattr(looks, "image_cuda", lambda: built)
    newer = Script.of(1, H100, {0: {"nvmlDeviceGetCudaComputeCapability": "12 0"}})
    older = Script.of(1, H100, {0: {"nvmlDeviceGetCudaComputeCapability": "7 5"}})
    assert (judge("arch", newer).status, judge("arch", older).status) == ("PASS", "FAIL")


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ('{"cuda": {"cuda": "13.0"}}', {"cuda": "13.0"}),
        ('{"image": "ddp"}', {}),
        ('{"cuda": 13}', {}),
        ("no json", {}),
        (None, {}),
    ],
)
def test_what_the_manifest_says(text, cuda, tmp_path):
    """An image's manifest has CUDA's part; a CPU image's and a broken one have none."""
    if text is not None:
        (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    assert looks.image_cuda(str(tmp_path)) == cuda


def test_nvlinks_of_an_unknown_instance_are_compared(judge):
    """The other GPUs of the host say how many there should be; one GPU has nobody to be linked to."""
    script = one(A100, **{LINKS: "1 1 1"})
    assert "3 NVLinks are up, other GPUs here have 12" in judge("nvlink", script, "ml.x.y").evidence
    assert judge("nvlink", Script.of(1, H100, {0: {LINKS: "0 0"}})).status == "SKIP"
    down = Script.of(2, A100, {key: {LINKS: "0 0"} for key in range(2)})
    assert judge("nvlink", down, "ml.x.y").status == "SKIP"


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        ((9, 9, 9), (9, 9, 9), "PASS"),
        ((9, 9, 9), (10, 9, 9), "WARN"),
        ((9, 9, 9), (9, 10, 9), "WARN"),
        ((0, 0, 0), (0, 0, 999), "PASS"),
        ((0, 0, 0), (0, 0, 1000), "FAIL"),
        ((9, 9, 9), (0, 0, 9), "PASS"),
        ((9, 9, 9), (1, 0, 0), "WARN"),
    ],
)
def test_what_links_repeat_while_they_work(before, after, status):
    """Growth in ten seconds counts, not what there was before; a GPU that was reset has begun at 0."""
    first, then = Gpu(0, link_errors=before), Gpu(0, link_errors=after)
    assert nvlink_growth(first, then, 10.0).status == status
    assert nvlink_growth(first, Gpu(0), 10.0).status == "UNKNOWN"


def test_memory_of_a_job_that_is_ending(make_job):
    """An earlier job's processes have some time to end; looks are taken until then."""
    here = Here(make_job(), read_settings({}), {}, 1, "fast")
    busy = one(H100, nvmlDeviceGetComputeRunningProcesses_v3="77 5")
    first, last = (asking.read(here, 0, lines_of(Library(s)), 20) for s in (busy, one(H100)))
    looks = [last, first]
    assert memory_in_time(first, 30.0, 0.0, looks.pop).status == "PASS"
    assert looks == []


def test_the_driver_and_mig(judge):
    """gpu.nvml has the versions, and says which GPUs are sliced."""
    found = judge("nvml", Script.of(2, H100, {1: {"nvmlDeviceGetMigMode": "1 1"}}))
    assert found.status == "PASS"
    assert found.evidence == "driver 580.95.05, for CUDA 13.0 and older: 2 GPUs, MIG is on for 1"
    assert judge("nvml", Script.of(0, H100)).status == "SKIP"


def test_gpus_of_several_kinds_are_told(judge):
    """Numbers in CUDA_VISIBLE_DEVICES then don't say which ones are meant: all are looked at."""
    script = Script.of(2, H100, {1: {"nvmlDeviceGetName": "Tesla T4"}})
    assert "several kinds" in judge("nvml", script, CUDA_VISIBLE_DEVICES="0").evidence


def test_persistence_mode_is_only_told(judge):
    """Off is how some hosts are: no warning."""
    assert judge("persistence", one(H100, nvmlDeviceGetPersistenceMode="0")).status == "PASS"


def test_earlier_xids_are_never_a_pass(judge):
    """A container has no kernel log."""
    assert judge("xid", one(H100)).status == "SKIP"


def test_every_check_says_when_and_why():
    """The page has limits and a source for each; one look's time fits into each check's."""
    for check in CHECKS:
        assert check.limits, check.name
        assert check.source, check.name
        assert check.timeout_s > limits.TIMEOUT_S, check.name


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("ecc", {ECC: "3"}),
        ("nvlink_errors", {"nvmlDeviceGetNvLinkErrorCounter": "3 2 0"}),
        ("fabric", {"nvmlDeviceGetGpuFabricInfoV": "3 999 0"}),
        ("pcie", {"nvmlDeviceGetCurrPcieLinkWidth": "8"}),
    ],
)
def test_the_page_has_the_findings_own_words(judge, name, changes):
    """What to do is the same in the log and in docs/checks.md."""
    assert judge(name, one(H100, **changes)).remedy == ROWS[name].remedy
