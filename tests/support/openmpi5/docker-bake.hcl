variable "IMAGE" { default = "muster/smddp:cpu" }

target "openmpi5" {
  context = "tests/support/openmpi5"
  tags    = ["muster-test/openmpi5:latest"]
  args = {
    IMAGE           = IMAGE
    OPENMPI_VERSION = "5.0.11"
  }
}
