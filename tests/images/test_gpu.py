"""What only the GPU images have: CUDA's libraries, one NCCL, a compiler for Triton, EFA. None of it needs a GPU."""

from __future__ import annotations

import json
import re

import pytest
import tomllib
from engine import GPU_CELLS, docker, gpu_image

pytestmark = pytest.mark.docker

TRITON = """
import inspect, json
from pathlib import Path
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.build import _build
Path("/tmp/kernel.py").write_text('''
import triton, triton.language as tl
@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) + 1, at < n)
''')
import sys; sys.path.insert(0, "/tmp")
from kernel import add
source = ASTSource(add, {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 128})
built = triton.compile(source, target=GPUTarget("cuda", 80, 32))
Path("/tmp/main.c").write_text("#include <Python.h>\\nint muster(void) { return Py_IsInitialized(); }\\n")
# Newer versions take one argument more.
empty = [[] for _ in inspect.signature(_build).parameters][3:]
module = _build("stub", "/tmp/main.c", "/tmp", *empty)
print(json.dumps({"cubin": len(built.asm["cubin"]), "module": Path(module).stat().st_size}))
"""
LOADED = """
import ctypes, json, re
import torch
for name in ("libnccl.so.2", "libcudart.so", *NAMES):
    ctypes.CDLL(name)
maps = open("/proc/self/maps").read()
print(json.dumps(sorted(set(re.findall(r"/\\S*/(?:libnccl|libcudart)[-.]\\S*", maps)))))
"""


@pytest.fixture(scope="module", params=GPU_CELLS)
def gpu(request) -> str:
    """The image of a GPU cell."""
    return gpu_image(request.param)


@pytest.fixture(scope="module")
def manifest(gpu) -> dict:
    """What the image says that it holds."""
    said = docker("run", "--rm", "--entrypoint", "cat", gpu, "/opt/muster/manifest.json").stdout
    return json.loads(said)


def python(image: str, script: str) -> dict | list:
    """What a script prints, as JSON, in a container without a network and without a GPU."""
    words = ("run", "--rm", "--network", "none", "--entrypoint", "python", image, "-c", script)
    return json.loads(docker(*words, timeout=240).stdout.splitlines()[-1])


def test_one_nccl_and_one_cuda_runtime(gpu, manifest):
    """The loader finds torch's own, by the names that EFA's plugin and MPI programs use, and no second one."""
    names = ["libnccl-net.so"] if "efa" in manifest else []
    loaded = python(gpu, LOADED.replace("NAMES", repr(names)))
    found = [path for path in loaded if "libnccl-" not in path]
    assert [re.search(r"lib(nccl|cudart)", path)[1] for path in found] == ["cudart", "nccl"]
    assert all("/site-packages/nvidia/" in path for path in found), found


def test_triton_compiles(gpu):
    """Triton makes code for a GPU, and gcc makes the launcher with Python's headers: torch.compile needs both."""
    built = python(gpu, TRITON)
    assert built["cubin"] > 1000
    assert built["module"] > 1000


def test_manifest_and_table_agree(root, gpu, manifest):
    """instances.toml, from which docs/gpus.md is made, says what torch in the image says of itself."""
    path = root / "entrypoint/src/muster/plan/instances.toml"
    tags = tomllib.loads(path.read_text(encoding="utf-8"))["tags"]
    name = re.sub(r"-(efa-stand-in|noefa)$", "", gpu.partition(":")[2])
    (row,) = [tag for tag in tags if tag["tag"] == name]
    cuda = manifest["cuda"]
    assert [f"sm_{one.replace('.', '')}" for one in row["architectures"]] == cuda["architectures"]
    assert (row["cuda"], row["minimum_driver"]) == (cuda["cuda"], cuda["minimum_driver"])
    assert manifest["versions"]["nvidia-nccl-cu" + cuda["cuda"].partition(".")[0]] == cuda["nccl"]


def test_the_image_asks_for_gpus(gpu):
    """NVIDIA's runtime hands GPUs to images that ask for them; the harness knows what the image is for."""
    env = json.loads(docker("image", "inspect", "--format", "{{json .Config.Env}}", gpu).stdout)
    assert "NVIDIA_VISIBLE_DEVICES=all" in env
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in env
    assert "MUSTER_IMAGE_DEVICE=gpu" in env
    assert not [line for line in env if line.startswith("LD_LIBRARY_PATH")]


def test_a_host_without_gpus_is_refused(gpu):
    """Status 75, and line 1 says why; `muster plan` and other commands work anywhere."""
    done = docker("run", "--rm", "--hostname", "algo-1", gpu, check=False)
    assert done.returncode == 75
    assert "this image is made for GPUs, and algo-1 shows none" in done.stderr
    assert "muster kind=check host=algo-1 rank=- status=75" in done.stderr
    assert docker("run", "--rm", gpu, "muster", "--version").stdout.startswith("muster ")


def test_layers_are_in_the_order_in_which_they_change(gpu):
    """torch, CUDA's libraries, the compiler, EFA, our own code: an update sends what is above it, and no more."""
    form = "{{.Size}} {{.CreatedBy}}"
    lines = docker("history", "--no-trunc", "--human=false", "--format", form, gpu).stdout
    steps = [line.split(" ", 1)[1] for line in reversed(lines.splitlines())]
    order = (
        "COPY /opt/venv",
        "COPY /cuda",
        "add_compiler.py",
        "install_efa.py",
        "install_muster.py",
    )
    places = [next(i for i, step in enumerate(steps) if name in step) for name in order]
    assert places == sorted(places)


def test_without_efa_and_compiler_it_is_small(gpu):
    """EFA and the compiler have 0.8 GB of the budget; a larger image is told by its layers."""
    label = '{{index .Config.Labels "muster.budget"}}'
    budget = docker("image", "inspect", "--format", label, gpu).stdout
    allowed = float(budget.removesuffix(" GB\n")) * 1e9 - 0.8e9
    form = "{{.Size}} {{.CreatedBy}}"
    lines = docker(
        "history", "--no-trunc", "--human=false", "--format", form, gpu
    ).stdout.splitlines()
    extras = ("add_compiler.py", "install_efa.py")
    kept = [line for line in lines if not any(name in line for name in extras)]
    size = sum(int(line.split(" ", 1)[0]) for line in kept)
    assert size <= allowed, "\n".join(line[:150] for line in kept)


def test_efa_is_what_the_label_says(gpu, manifest):
    """Label, tag and manifest agree on EFA, and no stand-in looks like the real one."""
    form = '{{index .Config.Labels "muster.efa"}}'
    label = docker("image", "inspect", "--format", form, gpu).stdout.strip()
    tagged = {"stand-in": "-efa-stand-in", "none": "-noefa"}.get(label, "")
    assert gpu.endswith(tagged)
    assert ("efa" in manifest) == (label != "none")
    if label != "none":
        assert manifest["efa"]["stand_in"] == (label == "stand-in")
        assert manifest["efa"]["plugin"].startswith("/opt/amazon/ofi-nccl/lib")


def test_case_062_horovod_with_nccl():
    """Compiled on a machine without a GPU: NCCL's operations are in it, by the one NCCL that torch loads, with no stub of a driver."""
    image = gpu_image("horovod-gpu")
    run = ("run", "--rm", "--network", "none", "--env", "MUSTER_ALLOW_CPU=1", image)
    built = docker(*run, "horovodrun", "--check-build").stdout
    for operations in ("[X] PyTorch", "[X] NCCL", "[X] MPI", "[X] Gloo"):
        assert operations in built
    look = (
        "import json, re, torch, horovod.torch as hvd;"
        "maps = open('/proc/self/maps').read();"
        "print(json.dumps([hvd.nccl_built(), torch.cuda.nccl.version(),"
        " sorted(set(re.findall(r'/\\S*/(?:libnccl|libcuda)[.]\\S*', maps)))]))"
    )
    nccl, version, loaded = json.loads(docker(*run, "python", "-c", look).stdout)
    assert nccl == int("{}{:02}{:02}".format(*version))
    assert len(loaded) == 1, loaded
    assert "/nvidia/nccl/" in loaded[0]
    assert "stubs" not in docker(*run, "sh", "-c", "ldconfig -p; echo $LD_LIBRARY_PATH").stdout
