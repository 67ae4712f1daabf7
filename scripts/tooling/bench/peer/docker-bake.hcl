# The image with AWS's toolkit, for `make bench` alone. docker-bake.hcl in the root knows nothing of it.

variable "MUSTER_BENCH_IMAGE" { default = "muster/ddp:cpu" }
variable "MUSTER_BENCH_PEER" { default = "muster-bench/peer:cpu" }

target "peer" {
  context  = "scripts/tooling/bench/peer"
  contexts = { scripts = "images/base" }
  args     = { IMAGE = MUSTER_BENCH_IMAGE }
  tags     = [MUSTER_BENCH_PEER]
}
