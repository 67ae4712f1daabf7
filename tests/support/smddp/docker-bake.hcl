variable "IMAGE" { default = "muster/smddp:cpu" }

target "smddp" {
  context = "tests/support/smddp"
  tags    = ["muster-test/smddp:latest"]
  args    = { IMAGE = IMAGE }
}
