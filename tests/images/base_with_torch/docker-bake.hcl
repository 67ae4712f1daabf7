# The versions come from the test, which takes them from the project's own bake file.
variable "TORCH_VERSION" { default = "" }
variable "PIP_VERSION" { default = "" }

target "base-with-torch" {
  context = "tests/images/base_with_torch"
  tags    = ["muster-test/base-with-torch:latest"]
  args = {
    TORCH_VERSION = TORCH_VERSION
    PIP_VERSION   = PIP_VERSION
  }
}
