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

# What both device variants hold, in the user's venv and in the harness's own.
variable "PINS" {
  default = {
    pip          = "26.3"
    numpy        = "2.4.6"
    boto3        = "1.44.8"
    nvidia_ml_py = "13.615.71"
    hatchling    = "1.33.0"
  }
}

# One line an image. Cells are listed, never multiplied: most combinations of torch, CUDA and Python do not exist.
variable "CELLS" {
  default = [
    { image = "ddp", device = "cpu", torch = "2.13.0", build = "2.13.0+cpu", python = "py311", flavour = "cpu" },
    { image = "ddp", device = "gpu", torch = "2.13.0", build = "2.13.0", python = "py311", flavour = "cu130" },
  ]
}

variable "TITLES" {
  default = {
    ddp = "PyTorch DistributedDataParallel on SageMaker"
  }
}

function "tags" {
  params = [cell]
  result = [
    "${REGISTRY}/${cell.image}:${cell.device}${MUSTER_TAG_SUFFIX}",
    "${REGISTRY}/${cell.image}:${cell.torch}-${cell.flavour}-${cell.python}${MUSTER_TAG_SUFFIX}",
  ]
}

group "default" { targets = ["ddp-cpu"] }
group "cpu" { targets = ["ddp-cpu"] }
group "gpu" { targets = ["ddp-gpu"] }
group "all" { targets = ["cpu", "gpu"] }

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

# The stages of images/base that the other images take as contexts; none of them is an image that anybody runs.
target "_base" {
  inherits   = ["_common"]
  dockerfile = "images/base/Dockerfile"
  output     = ["type=cacheonly"]
  args = {
    BASE_IMAGE           = MUSTER_BASE_IMAGE
    PIP_VERSION          = PINS.pip
    BOTO3_VERSION        = PINS.boto3
    NVIDIA_ML_PY_VERSION = PINS.nvidia_ml_py
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

target "base" {
  name     = "base-${device}"
  matrix   = { device = ["cpu", "gpu"] }
  inherits = ["_base"]
  target   = "base-${device}"
}

target "image" {
  name       = "${cell.image}-${cell.device}"
  matrix     = { cell = CELLS }
  inherits   = ["_common", "_oci"]
  dockerfile = "images/${cell.image}/Dockerfile"
  contexts = {
    base  = "target:base-${cell.device}"
    tools = "target:tools"
    wheel = "target:wheel"
  }
  args = {
    DEVICE        = cell.device
    TORCH_VERSION = cell.build
    TORCH_INDEX   = cell.device == "cpu" ? MUSTER_TORCH_INDEX : null
    NUMPY_VERSION = PINS.numpy
    BOTO3_VERSION = PINS.boto3
    PIP_VERSION   = PINS.pip
  }
  labels = {
    "org.opencontainers.image.title" = "${TITLES[cell.image]} (${cell.flavour})"
  }
  tags = tags(cell)
}
