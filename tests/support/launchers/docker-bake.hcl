variable "IMAGE" { default = "muster/smddp:cpu" }

target "launchers" {
  context    = "."
  dockerfile = "tests/support/launchers/Dockerfile"
  tags       = ["muster-test/launchers:latest"]
  args = {
    IMAGE              = IMAGE
    ACCELERATE_VERSION = "1.15.0"
    DEEPSPEED_VERSION  = "0.19.8"
  }
}
