# The images of muster, and the one place where direct versions are pinned. `scripts/images build` calls this with what
# the machine needs (secrets, base, network); a plain `docker buildx bake` works wherever registries answer.
# Grammar of buildx 0.13, the oldest that is supported.

variable "REGISTRY" { default = "muster" }

# The remaining variables carry a prefix: CI systems set names such as VERSION or REVISION for themselves.
variable "MUSTER_VERSION" { default = "0.1.0" }
variable "MUSTER_REVISION" { default = null }
variable "MUSTER_SOURCE" { default = null }
variable "MUSTER_BASE_IMAGE" { default = "python:3.11-slim-bookworm" }
variable "MUSTER_TORCH_INDEX" { default = "https://download.pytorch.org/whl/cpu" }
# Debian packages that every image gets beside the base's own, by names with a space between them.
variable "MUSTER_APT_PACKAGES" { default = null }
# Appended to every tag, so that a test build on another base stands beside the real one.
variable "MUSTER_TAG_SUFFIX" { default = "" }
# What the version tag says where the base decides it: it brings a torch, or another Python. The build says what is right.
variable "MUSTER_VERSION_TAG" { default = "" }
# EFA in the GPU images: yes, no, or stand-in (tests: an installer of the same form that holds no EFA).
variable "MUSTER_EFA" { default = "yes" }
variable "MUSTER_EFA_URL" { default = "https://efa-installer.amazonaws.com" }
# Another version than the pinned one comes with its own SHA-256.
variable "MUSTER_EFA_VERSION" { default = null }
variable "MUSTER_EFA_SHA256" { default = null }
variable "MUSTER_EFA_FINGERPRINT" { default = null }

# What both device variants hold, in the user's venv and in the harness's own.
variable "PINS" {
  default = {
    pip          = "26.3"
    numpy        = "2.4.6"
    boto3        = "1.44.8"
    nvidia_ml_py = "13.615.71"
    pyyaml       = "6.0.4"
    hatchling    = "1.33.0"
    efa          = "1.50.0"
    horovod      = "0.28.1"
    nvcc         = "13.0.88"
    cccl         = "13.0.85"
  }
}

# The torch builds. PyPI's torch 2.8 and newer is no longer built for CUDA 12.6.
variable "VENVS" {
  default = [
    { flavour = "cpu", torch = "2.13.0", build = "2.13.0+cpu", python = "py311" },
    { flavour = "cu130", torch = "2.13.0", build = "2.13.0", python = "py311" },
    { flavour = "cu126", torch = "2.7.1", build = "2.7.1", python = "py311" },
  ]
}

# What images stand on: a torch on a base, with what torch.compile needs at run time, in -dev also what sdists need.
# The name is the tag of the images on it.
variable "STACKS" {
  default = [
    { name = "cpu", device = "cpu", flavour = "cpu", compiler = "" },
    { name = "cpu-dev", device = "cpu", flavour = "cpu", compiler = "g++" },
    { name = "gpu", device = "gpu", flavour = "cu130", compiler = "gcc" },
    { name = "gpu-cu126", device = "gpu", flavour = "cu126", compiler = "gcc" },
  ]
}

# Cells are listed, never multiplied: most combinations of image, torch, CUDA and Python do not exist.
variable "CELLS" {
  default = [
    { image = "ddp", stack = "cpu", on = "torch", budget = "1.3 GB" },
    { image = "ddp", stack = "cpu-dev", on = "torch", budget = "1.6 GB" },
    { image = "ddp", stack = "gpu", on = "torch", budget = "6.2 GB" },
    { image = "ddp", stack = "gpu-cu126", on = "torch", budget = "6.6 GB" },
    { image = "horovod", stack = "cpu", on = "mpi", budget = "1.5 GB" },
    { image = "horovod", stack = "gpu", on = "mpi", budget = "6.8 GB" },
    { image = "smddp", stack = "cpu", on = "mpi", budget = "1.5 GB" },
  ]
}

# What proves EFA's installer PINS.efa: its SHA-256, and the key that signs each of them. AWS publishes both, in EC2's user
# guide (efa-verify.html); a stand-in has its own.
variable "EFA_PROOF" {
  default = {
    sha256      = "fa6dff8593d866866c13cb4640d9059835cd4efa427971f100ab40c97bef2841"
    fingerprint = "4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC"
  }
}

# Of the sdist PINS.horovod on PyPI.
variable "HOROVOD_SHA256" { default = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0" }

variable "TITLES" {
  default = {
    ddp     = "PyTorch DistributedDataParallel on SageMaker"
    horovod = "PyTorch and Horovod on SageMaker"
    smddp   = "PyTorch with MPI, and SageMaker's data parallel library, on SageMaker"
  }
}

function "stack" {
  params = [cell]
  result = [for stack in STACKS : stack if stack.name == cell.stack][0]
}

# What every tag ends with. No image without the real EFA has the tag of one that has it.
function "suffix" {
  params = [cell]
  result = join("", [
    stack(cell).device == "gpu" && MUSTER_EFA == "no" ? "-noefa" : "",
    stack(cell).device == "gpu" && MUSTER_EFA == "stand-in" ? "-efa-stand-in" : "",
    MUSTER_TAG_SUFFIX,
  ])
}

function "version" {
  params = [venv]
  result = MUSTER_VERSION_TAG != "" ? MUSTER_VERSION_TAG : "${venv.torch}-${venv.flavour}-${venv.python}"
}

function "tags" {
  params = [cell]
  result = compact([
    # `gpu` and the like promise the cell's own torch.
    MUSTER_VERSION_TAG == "" ? "${REGISTRY}/${cell.image}:${cell.stack}${suffix(cell)}" : "",
    "${REGISTRY}/${cell.image}:${version([for venv in VENVS : venv if venv.flavour == stack(cell).flavour][0])}${stack(cell).compiler == "g++" ? "-dev" : ""}${suffix(cell)}",
  ])
}

# What label and manifest say of EFA.
function "efa" {
  params = [device]
  result = device != "gpu" || MUSTER_EFA == "no" ? "none" : MUSTER_EFA == "stand-in" ? "stand-in" : efa_version()
}

function "efa_version" {
  params = []
  result = MUSTER_EFA_VERSION == null ? PINS.efa : MUSTER_EFA_VERSION
}

# Of CUDA 13.0, as torch's own libraries; for Horovod's kernels, in its builder only.
function "cuda_compiler" {
  params = []
  result = "nvidia-cuda-nvcc==${PINS.nvcc} nvidia-cuda-crt==${PINS.nvcc} nvidia-nvvm==${PINS.nvcc} nvidia-cuda-cccl==${PINS.cccl}"
}

group "default" { targets = ["ddp-cpu"] }
group "cpu" { targets = ["ddp-cpu", "horovod-cpu", "smddp-cpu"] }
group "dev" { targets = ["ddp-cpu-dev"] }
group "gpu" { targets = ["ddp-gpu", "ddp-gpu-cu126", "horovod-gpu"] }
group "all" { targets = ["cpu", "dev", "gpu"] }

target "_common" {
  context = "."
}

target "_oci" {
  labels = {
    "org.opencontainers.image.vendor"    = "muster"
    "org.opencontainers.image.licenses"  = "Apache-2.0"
    "org.opencontainers.image.version"   = MUSTER_VERSION
    "org.opencontainers.image.revision"  = MUSTER_REVISION
    "org.opencontainers.image.source"    = MUSTER_SOURCE
    "org.opencontainers.image.base.name" = MUSTER_BASE_IMAGE
  }
}

# The stages of images/base that the images take as contexts; none of them is an image that anybody runs.
target "_base" {
  inherits   = ["_common"]
  dockerfile = "images/base/Dockerfile"
  output     = ["type=cacheonly"]
  args = {
    BASE_IMAGE           = MUSTER_BASE_IMAGE
    PIP_VERSION          = PINS.pip
    BOTO3_VERSION        = PINS.boto3
    NVIDIA_ML_PY_VERSION = PINS.nvidia_ml_py
    PYYAML_VERSION       = PINS.pyyaml
    HATCHLING_VERSION    = PINS.hatchling
    APT_PACKAGES         = MUSTER_APT_PACKAGES
  }
}

target "tools" {
  inherits = ["_base"]
  target   = "tools"
}

target "wheel" {
  inherits = ["_base"]
  target   = "wheel"
}

# EFA's installer, fetched and checked; an empty folder where an image gets none.
target "efa" {
  name     = "efa-${device}"
  matrix   = { device = ["cpu", "gpu"] }
  inherits = ["_base"]
  target   = "efa"
  args = {
    EFA             = efa(device)
    EFA_ASKED       = MUSTER_EFA
    EFA_VERSION     = efa_version()
    EFA_SHA256      = MUSTER_EFA_SHA256 == null ? EFA_PROOF.sha256 : MUSTER_EFA_SHA256
    EFA_FINGERPRINT = MUSTER_EFA_FINGERPRINT == null ? EFA_PROOF.fingerprint : MUSTER_EFA_FINGERPRINT
    EFA_URL         = MUSTER_EFA_URL
  }
}

# A venv for each torch: cells that share one share its layers.
target "venv" {
  name     = "venv-${venv.flavour}"
  matrix   = { venv = VENVS }
  inherits = ["_base"]
  target   = "venv"
  args = {
    VERSION_TAG   = version(venv)
    FLAVOUR       = venv.flavour
    TORCH_VERSION = venv.build
    TORCH_INDEX   = venv.flavour == "cpu" ? MUSTER_TORCH_INDEX : null
    NUMPY_VERSION = PINS.numpy
    BOTO3_VERSION = PINS.boto3
    PIP_VERSION   = PINS.pip
  }
}

# What an image starts from: torch, or torch and Open MPI.
target "stack" {
  name     = "${on}-${stack.name}"
  matrix   = { on = ["torch", "mpi"], stack = STACKS }
  inherits = ["_base"]
  target   = on
  contexts = { venv = "target:venv-${stack.flavour}" }
  args = {
    DEVICE   = stack.device
    COMPILER = stack.compiler
  }
}

target "image" {
  name       = "${cell.image}-${cell.stack}"
  matrix     = { cell = CELLS }
  inherits   = ["_common", "_oci"]
  dockerfile = "images/${cell.image}/Dockerfile"
  contexts = {
    "${cell.on}" = "target:${cell.on}-${cell.stack}"
    venv         = "target:venv-${stack(cell).flavour}"
    efa          = "target:efa-${stack(cell).device}"
    wheel        = "target:wheel"
  }
  args = {
    DEVICE          = stack(cell).device
    HOROVOD_VERSION = cell.image == "horovod" ? PINS.horovod : null
    HOROVOD_SHA256  = cell.image == "horovod" ? HOROVOD_SHA256 : null
    CUDA_COMPILER   = cell.image == "horovod" && stack(cell).device == "gpu" ? cuda_compiler() : null
  }
  labels = {
    "org.opencontainers.image.title" = "${TITLES[cell.image]} (${stack(cell).flavour})"
    "muster.device"                  = stack(cell).device
    "muster.budget"                  = cell.budget
    "muster.efa"                     = efa(stack(cell).device)
  }
  tags = tags(cell)
}
